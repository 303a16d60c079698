"""A model of Django, and its page in the admin."""

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from mount.journal import journal


class Note(models.Model):
    """A note in the SQL database of Django."""

    text = models.CharField(max_length=100)

    class Meta:
        app_label = "mount"

    def __str__(self) -> str:
        return self.text


@admin.register(Note)
class NoteAdmin(admin.ModelAdmin):
    """Saves a note in Django's database, and a line in the journal: both, or neither."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        journal(request.META).append(f"django saved {obj.text}")
        if obj.text == "fail":
            raise ZeroDivisionError
