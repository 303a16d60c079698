"""Kubernetes: the container, with plain manifests for it. No cluster has run them yet; their schema is checked."""

from __future__ import annotations

import re
from pathlib import Path

from pipeline.deploying import container
from pipeline.deploying.lock import project_of
from pipeline.deploying.site import ENVIRONMENT, Deployment, Site

MANIFEST = """\
# The site of {ini}. Written by `pipeline deploy kubernetes`.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: {name}
spec:
  {replicas}
  selector:
    matchLabels:
      app.kubernetes.io/name: {name}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {name}
    spec:
      # The site asks nothing of the cluster.
      automountServiceAccountToken: false
      # On SIGTERM gunicorn lets requests finish.
      terminationGracePeriodSeconds: {grace}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        # The group of the volumes.
        fsGroup: 10001
        seccompProfile:
          type: RuntimeDefault
      containers:
      - name: site
        # Put the name of your registry before it.
        image: {image}
        ports:
        - name: http
          containerPort: 8080
        envFrom:
        # The variables of the command line, such as the database with its password.
        - secretRef:
            name: {name}
            optional: {optional}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
        resources:
          # What the scheduler keeps free for it. Read the memory of a process off `pipeline top`, or the metrics.
          requests:
            cpu: 100m
            memory: 256Mi
          limits:
            memory: 1Gi
        # A site that loads slowly is not killed meanwhile: 60 seconds.
        startupProbe:
          httpGet:
            path: {health}
            port: http
          periodSeconds: 2
          failureThreshold: 30
        # Gets no requests while the database is away, or while it is about to stop.
        readinessProbe:
          httpGet:
            path: {health}
            port: http
          periodSeconds: 2
          timeoutSeconds: 5
        # Started again if it takes no connection. Not by `health`: a new start brings no database back.
        livenessProbe:
          tcpSocket:
            port: http
          periodSeconds: 10
          failureThreshold: 6
{stop}        volumeMounts:
        - name: tmp
          mountPath: /tmp
        # The sign of life of gunicorn's processes.
        - name: shm
          mountPath: /dev/shm
{mounts}      volumes:
      - name: tmp
        emptyDir: {{}}
      - name: shm
        emptyDir:
          medium: Memory
{volumes}---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector:
    app.kubernetes.io/name: {name}
  ports:
  - name: http
    port: 80
    targetPort: http
"""

ALONE = """\
# What the site writes is in a volume that one container has.
  replicas: 1
  strategy:
    type: Recreate"""
SEVERAL = """\
# An update starts a container before it stops one.
  replicas: 2
  strategy:
    rollingUpdate:
      maxUnavailable: 0"""

BEFORE_STOP = """\
        # The cluster needs a moment to send new requests elsewhere; with --drain, gunicorn waits itself.
        lifecycle:
          preStop:
            exec:
              command: [sleep, "5"]
"""

MOUNT = """\
        - name: {name}
          mountPath: {path}
"""
VOLUME = """\
      - name: {name}
        persistentVolumeClaim:
          claimName: {claim}
"""
CLAIM = """\
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {claim}
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 10Gi
"""


def write(site: Site) -> Deployment:
    """Write the files of the container, and the manifests."""
    inner = container.write(site)
    ini = Path(site.ini.partition("#")[0])
    root = container.root_of(ini)
    about = project_of(root).get("project", {})
    name = label(about.get("name", root.name))
    image = f"{name}:{about.get('version', '1')}"
    paths = {label(path): path for path in container.volumes_of(root, ini, site)}
    manifest = MANIFEST.format(
        ini=site.ini,
        name=name,
        image=image,
        replicas=ALONE if paths else SEVERAL,
        grace=45 + site.drain,
        optional=str(not site.variables).lower(),
        health=site.health,
        stop="" if site.drain else BEFORE_STOP,
        mounts="".join(MOUNT.format(name=one, path=path) for one, path in paths.items()),
        volumes="".join(VOLUME.format(name=one, claim=f"{name}-{one}") for one in paths),
    ) + "".join(CLAIM.format(claim=f"{name}-{one}") for one in paths)
    secret = f"kubectl create secret generic {name} --from-env-file {site.directory}/{ENVIRONMENT}"
    return inner._replace(
        files={**inner.files, "kubernetes.yaml": manifest},
        start=[
            f"docker build -t {image} -f {site.directory}/Dockerfile {root}",
            f"docker push {image}",
            *([secret] if site.variables else []),
            f"kubectl apply -f {site.directory}/kubernetes.yaml",
        ],
        stop=[f"kubectl scale deployment/{name} --replicas=0"],
        reload=[f"kubectl rollout restart deployment/{name}"],
        notes=[
            *inner.notes,
            "No cluster has run these manifests yet: only their schema is checked.",
            "Let the site trust the proxies of the cluster by their network, such as proxies=10.0.0.0/8.",
            *(
                [
                    f"One container at a time: the site writes to {', '.join(paths.values())}. With its data on a "
                    f"database server, and its keys in a secret that is mounted there, there can be several."
                ]
                if paths
                else []
            ),
        ],
    )


def label(text: str) -> str:
    """Return a name as Kubernetes has it: lower case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50] or "site"
