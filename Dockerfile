# Two images: `--target web` serves pages and has no torch, `--target worker` computes.
# Isoscope runs from its folder; the virtual environment beside it holds what it depends on, and knows the folder.

FROM python:3.11-slim-trixie AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /srv/isoscope
RUN python -m venv --without-pip /venv
# Only what names the dependencies, so that a change of code installs nothing anew.
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY isoscope/pyproject.toml isoscope/build.py isoscope/
RUN pip --python /venv/bin/python install -c requirements.lock -e ./isoscope -e ".[s3]"

FROM build AS build-worker
# Torch from PyPI brings CUDA, some gigabytes; compose.cpu.yml names the index of the small ones.
ARG PIP_EXTRA_INDEX_URL
RUN pip --python /venv/bin/python install -c requirements.lock -e ./isoscope -e ".[s3,worker]"

FROM python:3.11-slim-trixie AS code
WORKDIR /srv/isoscope
COPY . .
RUN python -m compileall -q .

FROM python:3.11-slim-trixie AS base
LABEL org.opencontainers.image.title="Isoscope" \
      org.opencontainers.image.description="A dashboard for isotropy of embeddings" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="MIT"
# An empty volume takes over the folders and the owner that it finds here.
RUN groupadd --gid 10001 isoscope \
 && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin isoscope \
 && install --directory --owner=10001 --group=10001 /backups /data /data/tmp /models
WORKDIR /srv/isoscope
# Uploads are received in TMPDIR, so it needs as much room as the data.
ENV PATH=/venv/bin:$PATH \
    PYTHONPATH=/srv/isoscope \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    TMPDIR=/data/tmp \
    HF_HOME=/data/huggingface \
    ISOSCOPE_DATA_DIR=/data \
    ISOSCOPE_MODELS_DIR=/models
VOLUME /data

# The environment before the code: a change of code makes one small layer, and no copy of the environment. Both come
# last, since a storage driver without overlays copies everything below at each later step.
FROM base AS web
# For isoscope backup and restore. Debian 13 has PostgreSQL 17, the version of docker-compose.yml.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends postgresql-client \
 && apt-get clean \
 && rm -rf /var/lib/apt/lists/*
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/api/health', timeout=8)"]
CMD ["python", "-m", "app"]
COPY --from=build /venv /venv
COPY --from=code /srv/isoscope /srv/isoscope

FROM base AS worker
USER 10001:10001
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
HEALTHCHECK --interval=60s --timeout=30s --start-period=120s --retries=2 \
  CMD ["python", "-m", "isoscope", "doctor", "--worker"]
CMD ["python", "-m", "workers"]
COPY --from=build-worker /venv /venv
COPY --from=code /srv/isoscope /srv/isoscope
