"""the container, with manifests.

No cluster has run them yet; their schema is checked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pipeline.deploying import container
from pipeline.deploying.site import Site
from pipeline.deploying.target import deployment_of


def values(site: Site) -> dict[str, Any]:
    inner = deployment_of("container", site)
    ini = Path(site.ini.partition("#")[0])
    root = container.root_of(ini)
    about = container.project_of(root).get("project", {})
    name = label(about.get("name", root.name))
    return {
        "inner": inner,
        "root": root,
        "name": name,
        "image": f"{name}:{re.sub('[^A-Za-z0-9_.-]', '-', about.get('version', '1'))}",
        "claims": {label(path): path for path in container.volumes_of(root, ini, site)},
    }


def label(text: str) -> str:
    """Return a name as Kubernetes has it: a letter, and then lower case letters, digits and hyphens. YAML would
    read a name of digits as a number, and ``no`` as false."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50].rstrip("-")
    is_read = re.fullmatch(r"(?!(?:true|false|yes|no|on|off|y|n|null)$)[a-z].*", name)
    return name if is_read else f"site-{name}".rstrip("-")
