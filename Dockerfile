# Two images: `api` (Python only) and `pipeline` (Spark and Java).
#
#   docker build --target api -t oriel-api .
#   docker build --target pipeline -t oriel-pipeline .

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

FROM base AS api
COPY --from=api-packages /opt/venv /opt/venv
# The package: links to the folders, and to the page that `oriel topology` prints.
COPY src src
COPY docs/topology.md docs/
COPY storage storage
COPY app app
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/oriel/src
USER oriel
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["python", "-P", "-m", "oriel", "serve"]
CMD ["--data", "/data", "--host", "0.0.0.0", "--port", "8080", "--insecure"]

FROM base AS pipeline
# procps: Spark's start script asks `ps`.
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY --from=pipeline-packages /opt/venv /opt/venv
# The package: links to the folders, and to the page that `oriel topology` prints.
COPY src src
COPY docs/topology.md docs/
COPY storage storage
COPY pipeline pipeline
COPY demo/flights.py demo/
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/oriel/src
USER oriel
# Spark's Kafka connector is put into the image, so that a start needs no network for it.
RUN python -c "from oriel.pipeline.sources import kafka_settings; \
from oriel.pipeline.spark import build_session; \
build_session('image', extra=kafka_settings()).stop()"
VOLUME /data
ENTRYPOINT ["python", "-P", "-m", "oriel", "run"]
CMD ["--help"]
