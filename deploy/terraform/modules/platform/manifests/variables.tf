variable "name" {
  description = "What every object is called, or begins with."
  type        = string
  default     = "packetboat"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,28}[a-z0-9]$", var.name))
    error_message = "Lower-case letters, digits and hyphens: 2 to 30 of them, a letter first."
  }
}

variable "namespace" {
  description = "Where everything is. Nothing else should be there: its network policies deny what they do not name."
  type        = string
  default     = "packetboat"

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.namespace))
    error_message = "A DNS label."
  }
}

variable "create_namespace" {
  description = "Whether the namespace is one of the objects; it gets the Pod Security level `restricted`."
  type        = bool
  default     = true
}

variable "cluster_domain" {
  description = "The DNS domain of the cluster."
  type        = string
  default     = "cluster.local"
}

variable "image" {
  description = "The server's image with its tag or, better, its digest."
  type        = string

  validation {
    condition     = can(regex("(:[A-Za-z0-9_][A-Za-z0-9_.-]*|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "Name a tag other than `latest`, or a digest: a restart must not bring another version."
  }
}

variable "images" {
  description = "Of components that run another image than `image`, during an upgrade (docs/operations/kubernetes.md): migrate, store, scheduler, subscribe, publish, gateway, backup."
  type        = map(string)
  default     = {}

  validation {
    condition     = length(setsubtract(keys(var.images), ["migrate", "store", "scheduler", "subscribe", "publish", "gateway", "backup"])) == 0
    error_message = "Components are migrate, store, scheduler, subscribe, publish, gateway and backup."
  }
}

variable "image_pull_secrets" {
  description = "Names of Secrets for the registry."
  type        = list(string)
  default     = []
}

variable "run_as" {
  description = "The user and group that processes run as; that of the image."
  type        = number
  default     = 10001

  validation {
    condition     = var.run_as > 0
    error_message = "Nothing runs as root."
  }
}

variable "issuer" {
  description = "The public base URL (PACKETBOAT_ISSUER), such as https://mq.example.com."
  type        = string

  validation {
    condition     = can(regex("^https?://[^\\s/?#@]+(/[^\\s/?#]+)*$", var.issuer))
    error_message = "A base URL, without query or slash at the end."
  }
}

variable "log_level" {
  description = "PACKETBOAT_LOG_LEVEL of all processes."
  type        = string
  default     = "info"

  validation {
    condition     = contains(["debug", "info", "warning", "error"], var.log_level)
    error_message = "debug, info, warning or error."
  }
}

variable "settings" {
  description = "More settings (docs/settings.md) of all servers, such as { PACKETBOAT_QUOTA_TOPICS = \"100\" }. Those that the module sets are refused."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for name in keys(var.settings) : startswith(name, "PACKETBOAT_")])
    error_message = "Settings are PACKETBOAT_*."
  }
}

# Secrets --------------------------------------------------------------------------------------

variable "secrets" {
  description = <<-EOT
    Where secrets are.
    - `existing`: a Secret with the keys `cluster-uid`, `store-secret`, `ack-secret`, `seal-keys`
      and `database-url`. `migrate_key` is another key, where another login migrates. `revision` is
      any text: change it when the Secret has changed, and servers are restarted.
    - else one is made, with secrets that are generated once and kept in Terraform's state. Each
      name in a list is a secret of its own: the first signs, all verify. To change one without a
      refusal, apply ["a"], ["a", "b"], ["b", "a"] and ["b"], one after the other. `cluster_uid`
      names one that is never changed, but for a new installation made of a backup.
  EOT
  type = object({
    existing     = optional(string)
    migrate_key  = optional(string, "database-url")
    cluster_uid  = optional(string, "a")
    revision     = optional(string, "")
    store_secret = optional(list(string), ["a"])
    ack_secret   = optional(list(string), ["a"])
    seal_keys    = optional(list(string), ["a"])
  })
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for names in [var.secrets.store_secret, var.secrets.ack_secret, var.secrets.seal_keys] :
      length(names) > 0 && length(distinct(names)) == length(names) &&
      alltrue([for name in names : can(regex("^[a-z0-9]{1,16}$", name))])
    ])
    error_message = "Lists of one or more different names of up to 16 lower-case letters and digits."
  }
}

variable "postgres" {
  description = <<-EOT
    A Postgres 14 or later that is there already; it must not lose commits in a failover.
    `url` (postgresql://user:password@host:port/database) goes into the Secret that is made, and is
    left out where `secrets.existing` has it; `migrate_url` is that of the owner of the schema,
    where servers have a login of their own. `cidrs` and `port` say where it is, for network
    policies; with `pods` ({ label = value }) it is in the cluster, in the namespace
    `pods_namespace`.
  EOT
  type = object({
    url            = optional(string)
    migrate_url    = optional(string)
    cidrs          = optional(list(string), [])
    port           = optional(number, 5432)
    pods           = optional(map(string), {})
    pods_namespace = optional(string)
  })
  nullable = false

  validation {
    condition     = (var.postgres.url == null) == (var.secrets.existing != null)
    error_message = "Give `postgres.url`, or a Secret that has it: `secrets.existing`."
  }
  validation {
    condition     = length(var.postgres.cidrs) > 0 || length(var.postgres.pods) > 0
    error_message = "Say where Postgres is, by `cidrs` or `pods`: network policies deny all else."
  }
}

# Store nodes ----------------------------------------------------------------------------------

variable "store" {
  description = <<-EOT
    The store nodes by their ids, 1 to 65535. An id is for one node and its disk, for good: a node
    that has lost its disk is replaced by one with a new id. `zone` is the value of the node label
    `zone_label`; no zone should have a majority. A node that was not there when the installation
    began has `join = true`; one that was replaced stays listed, with `removed = true`
    (docs/operations/kubernetes.md).
    `drain_s`: how long a node that is stopped may take to hand over its leaders first.
  EOT
  type = object({
    nodes = map(object({
      zone          = optional(string, "")
      join          = optional(bool, false)
      removed       = optional(bool, false)
      storage       = optional(string)
      storage_class = optional(string)
    }))
    groups             = optional(number, 8)
    storage            = optional(string, "100Gi")
    storage_class      = optional(string)
    cpu                = optional(string, "1")
    memory             = optional(string, "2Gi")
    drain_s            = optional(number, 120)
    zone_label         = optional(string, "topology.kubernetes.io/zone")
    priority_class     = optional(string)
    node_selector      = optional(map(string), {})
    tolerations        = optional(list(map(string)), [])
    disk_reserve_bytes = optional(number, 1073741824)
    settings           = optional(map(string), {})
  })
  default = {
    nodes = { 1 = {}, 2 = {}, 3 = {} }
  }
  nullable = false

  validation {
    condition     = alltrue([for id in keys(var.store.nodes) : can(regex("^[1-9][0-9]{0,4}$", id)) && try(tonumber(id) <= 65535, false)])
    error_message = "Ids of store nodes are 1 to 65535."
  }
  validation {
    condition = (
      length([for node in values(var.store.nodes) : node if !node.join]) >= 3 &&
      length([for node in values(var.store.nodes) : node if !node.removed]) >= 3
    )
    error_message = "Three nodes or more are there from the beginning, with `join = false`, and three or more are left."
  }
  validation {
    condition = alltrue([
      for zone in distinct([for node in values(var.store.nodes) : node.zone if node.zone != ""]) :
      2 * length([for node in values(var.store.nodes) : node if node.zone == zone && !node.removed]) < length([for node in values(var.store.nodes) : node if !node.removed])
      || length(distinct([for node in values(var.store.nodes) : node.zone if node.zone != ""])) < 3
    ])
    error_message = "A zone has half of the store nodes or more: if it is lost, nothing can be published. Spread them evenly over the zones."
  }
  validation {
    condition     = alltrue([for name in keys(var.store.settings) : startswith(name, "PACKETBOAT_STORE_")])
    error_message = "Settings of store nodes are PACKETBOAT_STORE_*."
  }
}

# Servers --------------------------------------------------------------------------------------

variable "publish" {
  description = "Publish forwarders. One is one process; it uses no more than one core."
  type = object({
    replicas     = optional(number, 2)
    max_replicas = optional(number, 8)
    cpu          = optional(string, "1")
    memory       = optional(string, "1Gi")
    settings     = optional(map(string), {})
  })
  default  = {}
  nullable = false
}

variable "subscribe" {
  description = "Subscribe forwarders, which push webhooks too. One is one process; it uses no more than one core."
  type = object({
    replicas     = optional(number, 2)
    max_replicas = optional(number, 8)
    cpu          = optional(string, "1")
    memory       = optional(string, "1536Mi")
    settings     = optional(map(string), {})
  })
  default  = {}
  nullable = false
}

variable "gateway" {
  description = "Gateways: the control plane, tokens, pages."
  type = object({
    replicas     = optional(number, 2)
    max_replicas = optional(number, 4)
    cpu          = optional(string, "500m")
    memory       = optional(string, "768Mi")
    settings     = optional(map(string), {})
  })
  default  = {}
  nullable = false
}

variable "scheduler" {
  description = "Schedulers. One works, the others wait to take over."
  type = object({
    replicas = optional(number, 2)
    cpu      = optional(string, "500m")
    memory   = optional(string, "1Gi")
    settings = optional(map(string), {})
  })
  default  = {}
  nullable = false
}

variable "drain_s" {
  description = "PACKETBOAT_DRAIN_S of servers; a pod gets ten seconds more before it is killed."
  type        = number
  default     = 30

  validation {
    condition     = var.drain_s >= 1 && var.drain_s <= 600
    error_message = "From 1 to 600."
  }
}

variable "autoscaling" {
  description = <<-EOT
    How publish forwarders, subscribe forwarders and gateways grow from `replicas` to
    `max_replicas`: by processor time, with the cluster's metrics server. With `prometheus_url`
    KEDA does it instead (it has to be in the cluster), and subscribe forwarders grow with
    `backlog_per_forwarder` messages, too: of what consumers take now, not of what nobody reads.
    Runners of exports follow the runs that wait.
  EOT
  type = object({
    enabled               = optional(bool, true)
    cpu_percent           = optional(number, 70)
    prometheus_url        = optional(string)
    backlog_per_forwarder = optional(number, 20000)
  })
  default  = {}
  nullable = false
}

# The front ------------------------------------------------------------------------------------

variable "front" {
  description = <<-EOT
    The balancer: HAProxy 3.0 or later with deploy/haproxy/haproxy.cfg. `tls_secret`: a Secret with
    `tls.crt` and `tls.key`; then it listens for HTTPS alone. It is needed, unless the Ingress has a
    certificate or `plain_http = true` says that tokens and messages may go unencrypted to it.
    `service_type`, `annotations`: of its Service. `ingress`: an Ingress in front of it, for clusters where one port serves many names;
    its controller must neither buffer nor repeat requests. `allow`: networks whose clients may
    reach it; empty: all.
  EOT
  type = object({
    image        = optional(string, "docker.io/library/haproxy:3.2.4")
    replicas     = optional(number, 2)
    cpu          = optional(string, "500m")
    memory       = optional(string, "512Mi")
    maxconn      = optional(number, 20000)
    run_as       = optional(number, 99)
    tls_secret   = optional(string)
    tls_revision = optional(string, "")
    plain_http   = optional(bool, false)
    service_type = optional(string, "LoadBalancer")
    annotations  = optional(map(string), {})
    allow        = optional(list(string), [])
    ingress = optional(object({
      host        = string
      class       = optional(string)
      tls_secret  = optional(string)
      annotations = optional(map(string), {})
    }))
  })
  default  = {}
  nullable = false

  validation {
    condition     = contains(["LoadBalancer", "ClusterIP", "NodePort"], var.front.service_type)
    error_message = "service_type is LoadBalancer, ClusterIP or NodePort."
  }
  validation {
    condition     = var.front.plain_http || var.front.tls_secret != null || try(var.front.ingress.tls_secret, null) != null
    error_message = "front.tls_secret names the Secret of a certificate; plain_http = true does without one: then all on the way read tokens and messages."
  }
}

# Exports --------------------------------------------------------------------------------------

variable "exports" {
  description = <<-EOT
    Runners of exports; null: none. `lakes`: as PACKETBOAT_LAKES has them (docs/operations/exports.md),
    with `spark_master` of each; a runner is `local[*]` or the driver of a cluster. They hold
    credentials and go into a Secret of their own; or `lakes_secret` has them, in the key
    `lakes.json`, and `lake_names` says which there are. `credential_secret`: a Secret with the keys
    `client-id` and `client-secret` of an operator with the permission `run_exports`.
    `egress`: where catalogs, object stores and Spark masters are. `spark_pods`: labels of executors
    in this cluster, in `spark_namespace`, which have to reach the driver.
  EOT
  type = object({
    image             = string
    lakes             = optional(any)
    lakes_secret      = optional(string)
    lake_names        = optional(list(string), ["default"])
    credential_secret = string
    replicas          = optional(number, 1)
    max_replicas      = optional(number, 4)
    cpu               = optional(string, "2")
    memory            = optional(string, "6Gi")
    driver_memory     = optional(string, "3g")
    scratch           = optional(string, "50Gi")
    drain_s           = optional(number, 300)
    settings          = optional(map(string), {})
    egress = optional(list(object({
      cidr  = string
      ports = list(number)
    })), [])
    spark_pods      = optional(map(string), {})
    spark_namespace = optional(string)
  })
  default = null

  validation {
    condition     = var.exports == null || try((var.exports.lakes == null) != (var.exports.lakes_secret == null), false)
    error_message = "Either `lakes` or `lakes_secret`."
  }
}

# Backups ---------------------------------------------------------------------------------------

variable "backup" {
  description = <<-EOT
    Backups of Postgres and the store together (docs/operations/backup.md), by cron; null: none.
    `claim`: a PersistentVolumeClaim in the namespace, of storage that is not lost with the cluster.
  EOT
  type = object({
    claim    = string
    schedule = optional(string, "7 * * * *")
    keep     = optional(number, 48)
    memory   = optional(string, "1Gi")
  })
  default = null
}

variable "restore" {
  description = <<-EOT
    Only for a new installation that is made of a backup: every store node and Postgres are filled
    with the one called `name` in the volume of `claim`, which several pods have to be able to read
    at once. Nothing of it is done again once it is done; leave it out afterwards.
  EOT
  type = object({
    claim = string
    name  = string
  })
  default = null

  validation {
    condition     = var.restore == null || can(regex("^[A-Za-z0-9._:-]+$", var.restore.name))
    error_message = "The name of a backup, as `packetboat backup list` shows it."
  }
}

# TLS between processes ------------------------------------------------------------------------

variable "peer_tls" {
  description = <<-EOT
    TLS with certificates between the platform's own processes (docs/operations/peer-tls.md).
    `mode`: off, accept, prefer or require; in a running installation one after the other.
    Certificates come from cert-manager, by the `issuer` named, whose CA signs nothing else; or are
    in a `secret` that is there, with `tls.crt`, `tls.key` and `ca.crt`. Each has the DNS name
    `name`: unless given, NAME.NAMESPACE.svc.CLUSTER_DOMAIN.
  EOT
  type = object({
    mode   = optional(string, "off")
    name   = optional(string)
    secret = optional(string)
    issuer = optional(object({
      name = string
      kind = optional(string, "Issuer")
    }))
    duration = optional(string, "2160h")
  })
  default  = {}
  nullable = false

  validation {
    condition     = contains(["off", "accept", "prefer", "require"], var.peer_tls.mode)
    error_message = "mode is off, accept, prefer or require."
  }
  validation {
    condition     = var.peer_tls.mode == "off" || (var.peer_tls.secret == null) != (var.peer_tls.issuer == null)
    error_message = "Say where certificates come from: either `issuer` or `secret`."
  }
}

# The network ----------------------------------------------------------------------------------

variable "network" {
  description = <<-EOT
    Who may reach whom. All pods deny by default, in both directions.
    - `dns_cidrs`: of name servers that are no pods, such as a node-local cache (169.254.20.10/32).
    - `webhooks`: networks that webhooks may reach, without `denied`. With `egress_proxy`
      (http://host:port, at `egress_proxy_cidr`) they leave by it alone, and it judges addresses.
    - `issuers`: whether tenants may bring token issuers of their own: then gateways and publish
      forwarders fetch their keys by HTTPS, too.
    - `metrics_namespace`: the namespace of Prometheus, which may read metrics.
  EOT
  type = object({
    enabled           = optional(bool, true)
    dns_cidrs         = optional(list(string), [])
    webhooks          = optional(list(string), ["0.0.0.0/0", "2000::/3"])
    webhook_ports     = optional(list(number), [443, 8443])
    denied            = optional(list(string), [])
    egress_proxy      = optional(string)
    egress_proxy_cidr = optional(string)
    issuers           = optional(bool, false)
    metrics_namespace = optional(string, "monitoring")
  })
  default  = {}
  nullable = false

  validation {
    condition     = (var.network.egress_proxy == null) == (var.network.egress_proxy_cidr == null)
    error_message = "`egress_proxy` and `egress_proxy_cidr` go together."
  }
  validation {
    condition     = var.network.egress_proxy == null || can(regex("^https?://[^\\s/?#@:]+:[0-9]+$", var.network.egress_proxy))
    error_message = "egress_proxy is http://host:port."
  }
}

# Watching -------------------------------------------------------------------------------------

variable "monitoring" {
  description = "`operator`: whether the Prometheus operator is in the cluster; then there are PodMonitors and the alerts. `labels`: what its Prometheus selects them by. `dashboards`: ConfigMaps that Grafana's sidecar finds by the label `grafana_dashboard`."
  type = object({
    operator   = optional(bool, false)
    interval   = optional(string, "15s")
    labels     = optional(map(string), {})
    dashboards = optional(bool, false)
  })
  default  = {}
  nullable = false
}
