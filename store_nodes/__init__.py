"""The replicated log: Multi-Paxos groups over one write-ahead log per node.

Forwarders use `store_nodes.client` and the formats (`queue_id`, `record_batch`, `errors`); all else
is private to the store. Nothing here knows of topics, tenants or HTTP.
"""
