"""The site that etc/deploy.ini serves: folders, documents and files in an object database.

``root``, ``check`` and ``sessions`` are what the ini names; ``scan`` names the modules with views and adapters.
"""

from pipeline_demo.site import root
from pipeline_demo.users import check, sessions

__all__ = ["check", "root", "sessions"]
