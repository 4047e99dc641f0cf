"""OpenTelemetry traces of requests, where its own environment variables say where to send them."""

import os

from oriel.app.guards import App

#: Any of these turns tracing on; all others are read by OpenTelemetry itself.
_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def is_traced() -> bool:
    """Whether traces are to be sent."""
    return any(os.environ.get(name) for name in _VARIABLES)


def traced(app: App) -> App:
    """The application, with a span for each request.

    Raises:
        ModuleNotFoundError: the extra ``otel`` is not installed.
    """
    # Imported when they are wanted: an extra of its own brings them.
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before this name.
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "oriel"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    layer: App = OpenTelemetryMiddleware(
        app, tracer_provider=provider, exclude_spans=["receive", "send"]
    )
    return layer
