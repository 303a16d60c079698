"""The addresses of the Django application: the admin."""

from django.contrib import admin
from django.urls import path

urlpatterns = [path("", admin.site.urls)]
