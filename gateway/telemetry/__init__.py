"""OpenTelemetry: spans and metrics of a server, off unless an operator switches them on."""
