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
# 40 MB: Oriel does not use Arrow Flight, and compiles nothing with Arrow.
RUN packages=$(echo /opt/venv/lib/python3.*/site-packages) \
    && rm -r "$packages/pyarrow/src" "$packages/pyarrow/tests" "$packages"/pyarrow/*_flight.*

FROM base AS pipeline-packages
COPY requirements-build.lock requirements-pipeline.lock ./
# pyspark comes as source; it is built with the pinned setuptools.
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock \
    && /opt/venv/bin/pip install --no-cache-dir --require-hashes --no-build-isolation \
        -r requirements-pipeline.lock
# As above, 40 MB of pandas' tests, and 160 MB of Spark: RocksDB (Oriel has its own state), Hive
# (the catalog is in memory), Spark Connect, machine learning, examples.
RUN packages=$(echo /opt/venv/lib/python3.*/site-packages) \
    && rm -r "$packages/pyarrow/src" "$packages/pyarrow/tests" "$packages"/pyarrow/*_flight.* \
        "$packages/pandas/tests" "$packages/pyspark/examples" "$packages/pyspark/data" \
    && for jar in rocksdbjni spark-connect spark-hive hive-beeline hive-cli hive-exec hive-jdbc \
        hive-metastore datanucleus derby spark-mllib breeze spire cats-kernel algebra lapack \
        arpack JTransforms; \
    do rm "$packages/pyspark/jars/$jar"* || exit 1; done

FROM api-packages AS producer-packages
COPY requirements-producer.lock ./
RUN /opt/venv/bin/pip install --no-cache-dir --require-hashes --no-build-isolation \
        -r requirements-producer.lock

FROM base AS api
COPY --from=api-packages /opt/venv /opt/venv
# The package: links to the folders, and to the page that `oriel topology` prints.
COPY src src
COPY docs/reference/topology-summary.md docs/reference/
COPY storage storage
# The engine, without Spark: merged reads use it.
COPY pipeline/__init__.py pipeline/errors.py pipeline/
COPY pipeline/windows pipeline/windows
COPY app app
# A checkout that was made with umask 077 has files that only its owner can read.
RUN chmod -R a+rX .
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/oriel/src
USER 10001
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["python", "-P", "-m", "oriel", "serve"]
CMD ["--data", "/data", "--host", "0.0.0.0", "--port", "8080", "--insecure"]

FROM base AS producer
COPY --from=producer-packages /opt/venv /opt/venv
COPY src src
COPY docs/reference/topology-summary.md docs/reference/
COPY storage storage
COPY demo demo
RUN chmod -R a+rX .
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
    && apt-get clean && rm -rf /var/lib/apt/lists/*
COPY --from=pipeline-packages /opt/venv /opt/venv
# The package: links to the folders, and to the page that `oriel topology` prints.
COPY src src
COPY docs/reference/topology-summary.md docs/reference/
COPY storage storage
COPY pipeline pipeline
COPY demo/flights.py demo/
RUN chmod -R a+rX .
# No archive of Spark's classes (docs/contributing/start.md): its creation starts a second Java, for
# which a container may lack memory, and each new container would create it again.
ENV PATH=/opt/venv/bin:$PATH PYTHONPATH=/opt/oriel/src ORIEL_CLASS_ARCHIVES=
USER 10001
# Spark's Kafka connector is put into the image, so that a start needs no network for it. Its jars
# are used by name, so Ivy's cache of descriptions and second copies is not needed.
RUN python -c "from oriel.pipeline.sources import kafka_settings; \
from oriel.pipeline.spark import build_session; \
build_session('image', extra=kafka_settings()).stop()" \
    && rm -rf ~/.ivy2.5.2/cache
# Packages that your topologies import (docs/how-to/local-stack.md). They change most often, so they come last.
COPY stack/project/requirements.txt /opt/project/
USER 0
RUN chmod -R a+rX /opt/project && pip install --no-cache-dir -r /opt/project/requirements.txt
USER 10001
VOLUME /data
ENTRYPOINT ["python", "-P", "-m", "oriel", "run"]
CMD ["--help"]
