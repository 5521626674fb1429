"""The areas of the API, one class each, over a sender; `sync/resources` is generated from these."""
