"""Exports: topics into lake tables, each message once.

`runner/` claims runs from the server and starts a *driver* for each; `driver/` is that process: it
has a Spark session, reads by the SDK's data source and writes through `lake/`: tables, files and
commits. What they tell each other is in `order.py`. Nothing here imports the server: all goes by
HTTP.
"""
