# Three images: `api` (Python only), `pipeline` (Spark and Java), and `producer`, which brings the
# flights to Kafka for the local stack.
#
#   docker build --target api -t oriel-api:0.1.0 .
#   docker build --target pipeline -t oriel-pipeline:0.1.0 .

FROM python:3.11-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# One user with one number in both images, because they share the data folder.
RUN useradd --uid 10001 --create-home --home-dir /var/lib/oriel oriel \
    && install -d -o oriel -g oriel /data
WORKDIR /opt/oriel

FROM base AS api-packages
COPY requirements-build.lock requirements-app.lock ./
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock \
    && /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements-app.lock

FROM base AS pipeline-packages
COPY requirements-build.lock requirements-pipeline.lock ./
# pyspark comes as source; it is built with the pinned setuptools.
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock \
    && /opt/venv/bin/pip install --no-cache-dir --require-hashes --no-build-isolation \
        -r requirements-pipeline.lock

FROM api-packages AS producer-packages
COPY requirements-producer.lock ./
RUN /opt/venv/bin/pip install --no-cache-dir --require-hashes --no-build-isolation \
        -r requirements-producer.lock

FROM base AS api
COPY --from=api-packages /opt/venv /opt/venv
# The package: links to the folders, and to the page that `oriel topology` prints.
COPY src src
COPY docs/topology.md docs/
COPY storage storage
COPY app app
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/oriel/src
USER 10001
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["python", "-P", "-m", "oriel", "serve"]
CMD ["--data", "/data", "--host", "0.0.0.0", "--port", "8080", "--insecure"]

FROM base AS producer
COPY --from=producer-packages /opt/venv /opt/venv
COPY src src
COPY docs/topology.md docs/
COPY storage storage
COPY demo demo
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/oriel/src
USER 10001
ENTRYPOINT ["python", "-P", "-m", "oriel", "demo"]
CMD ["--help"]

FROM base AS pipeline
# Java's fixes of the day come with a build; a pinned version is gone from the mirrors with the next.
# procps: Spark's start script asks `ps`.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=pipeline-packages /opt/venv /opt/venv
# What topologies of one's own import (docs/stack.md).
COPY stack/project/requirements.txt /opt/project/
RUN /opt/venv/bin/pip install --no-cache-dir -r /opt/project/requirements.txt
# The package: links to the folders, and to the page that `oriel topology` prints.
COPY src src
COPY docs/topology.md docs/
COPY storage storage
COPY pipeline pipeline
COPY demo/flights.py demo/
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/oriel/src
USER 10001
# Spark's Kafka connector is put into the image, so that a start needs no network for it.
RUN python -c "from oriel.pipeline.sources import kafka_settings; \
from oriel.pipeline.spark import build_session; \
build_session('image', extra=kafka_settings()).stop()"
VOLUME /data
ENTRYPOINT ["python", "-P", "-m", "oriel", "run"]
CMD ["--help"]
