"""OpenTelemetry traces of requests, enabled by OpenTelemetry's environment variables."""

import os

from oriel.app.guards import App

#: Each of the two enables tracing. OpenTelemetry itself reads all other variables.
_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def is_traced() -> bool:
    """Return whether traces are enabled."""
    return any(os.environ.get(name) for name in _VARIABLES)


def traced(app: App) -> App:
    """Return the application with a span for each request.

    Raises:
        ModuleNotFoundError: The extra ``otel`` is not installed.
    """
    # Imported only if tracing is enabled, because the packages are in an extra.
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override this name.
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "oriel"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    layer: App = OpenTelemetryMiddleware(
        app, tracer_provider=provider, exclude_spans=["receive", "send"]
    )
    return layer
