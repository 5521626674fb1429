"""The replicated log: Multi-Paxos groups over one write-ahead log per node.

Forwarders use `store_nodes.client` and the formats (`queue_id`, `record_batch`, `errors`). Commands
of operators also use `admin/`, `backup/` and `settings`, and start the process, `main`. All else is
private to the store. Nothing here knows of topics, tenants or HTTP.
"""
