"""The site that etc/deploy.ini serves: folders, documents and files in an object database.

``root`` and ``check`` are what the ini names; ``scan`` names the modules with views and adapters.
"""

from pipeline.demo.site import root
from pipeline.demo.users import check

__all__ = ["check", "root"]
