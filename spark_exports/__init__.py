"""Exports: topics into lake tables, each message once.

`runner/` claims runs from the server and starts a *driver* for each. `driver/` is that process: it
has a Spark session, reads through the SDK's data source and writes through `lake/`, which has
tables, files and commits. The messages between the two are in `order.py`. Nothing here imports the
server: all requests go over HTTP.
"""
