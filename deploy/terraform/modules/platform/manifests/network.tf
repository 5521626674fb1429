# Who may reach whom. Every pod denies what is not named here, in both directions. Probes come from a
# pod's own node, which Kubernetes lets through.

locals {
  servers = keys(local.roles)

  # Of what is no public address: as edge/egress/addresses.py has them. Clouds keep credentials at
  # some of these.
  not_public = concat([
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
    "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    "2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
  ], var.network.denied)
  # Where clouds tell a machine's credentials. Who needs it names it: it is not part of a larger network.
  metadata = ["100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.192/32", "fd00:ec2::/32"]

  # Each network that somebody may reach, without what in it nobody may.
  blocks = {
    for key, of in merge(
      { for cidr in var.network.webhooks : "webhooks ${cidr}" => { cidr = cidr, denied = local.not_public } },
      { for each in flatten([for exports in local.runners : exports.egress]) : "exports ${each.cidr}" => { cidr = each.cidr, denied = local.metadata } },
      ) : key => { ipBlock = merge({ cidr = of.cidr }, { for name, within in { except = [
        for denied in of.denied : denied
        if strcontains(denied, ":") == strcontains(of.cidr, ":")
        && try(tonumber(split("/", denied)[1]) > tonumber(split("/", of.cidr)[1]), false)
        && try(cidrhost("${split("/", denied)[0]}/${split("/", of.cidr)[1]}", 0) == cidrhost(of.cidr, 0), false)
    ] } : name => within if length(within) > 0 }) }
  }
  proxies = [for cidr in compact([var.network.egress_proxy_cidr]) : {
    to   = { ipBlock = { cidr = cidr } }
    port = tonumber(regex("[0-9]+$", var.network.egress_proxy))
  }]
  outside = [for each in concat(
    [for proxy in local.proxies : { to = [proxy.to], ports = [proxy.port] }],
    [for network in [var.network] : {
      to = [for cidr in network.webhooks : local.blocks["webhooks ${cidr}"]], ports = network.webhook_ports
    } if length(local.proxies) == 0],
    ) : {
    to = each.to, ports = [for port in each.ports : { protocol = "TCP", port = port }]
  } if length(each.to) > 0 && length(each.ports) > 0]

  # Peers and selectors by component.
  of = { for component in keys(local.components) : component => {
    podSelector = { matchLabels = merge(local.select, { (local.component) = component }) }
  } }
  prometheus = [{ namespaceSelector = { matchLabels = { "kubernetes.io/metadata.name" = var.network.metrics_namespace } } }]
  postgres_peers = concat(
    [for cidr in var.postgres.cidrs : { ipBlock = { cidr = cidr } }],
    [for pods in length(var.postgres.pods) > 0 ? [var.postgres.pods] : [] : {
      podSelector       = { matchLabels = pods }
      namespaceSelector = { matchLabels = { "kubernetes.io/metadata.name" = coalesce(var.postgres.pods_namespace, var.namespace) } }
    }],
  )
  to_postgres = { to = local.postgres_peers, ports = [{ protocol = "TCP", port = var.postgres.port }] }
  to_store    = { to = [local.of.store], ports = [{ protocol = "TCP", port = local.ports.store }] }
  dns_ports   = [{ protocol = "UDP", port = 53 }, { protocol = "TCP", port = 53 }]

  # Name → who it is for, what may come, where it may go. A direction that is left out is not touched;
  # one without any rule denies all. A rule without peers or ports would let everything through.
  rules = merge(
    {
      "deny" = { pods = { matchLabels = local.select }, ingress = [], egress = [] }
      "dns" = { pods = { matchLabels = local.select }, egress = concat(
        [{ to = [{
          namespaceSelector = { matchLabels = { "kubernetes.io/metadata.name" = "kube-system" } }
          podSelector       = { matchLabels = { "k8s-app" = "kube-dns" } }
        }], ports = local.dns_ports }],
        [for cidr in var.network.dns_cidrs : { to = [{ ipBlock = { cidr = cidr } }], ports = local.dns_ports }],
      ) }
      "store" = {
        pods = local.of.store.podSelector
        ingress = [
          { from = [for component in concat(["store", "backup"], local.servers) : local.of[component]], ports = [{ protocol = "TCP", port = local.ports.store }] },
          { from = local.prometheus, ports = [{ protocol = "TCP", port = local.ports.store_metrics }] },
        ]
        egress = [local.to_store]
      }
      "servers" = {
        pods    = { matchLabels = local.select, matchExpressions = [{ key = local.component, operator = "In", values = local.servers }] }
        ingress = [{ from = local.prometheus, ports = [{ protocol = "TCP", port = local.ports.metrics }] }]
        egress  = [local.to_store, local.to_postgres]
      }
      "balanced" = {
        pods    = { matchLabels = local.select, matchExpressions = [{ key = local.component, operator = "In", values = local.balanced }] }
        ingress = [{ from = [local.of.front], ports = [{ protocol = "TCP", port = local.ports.http }] }]
      }
      "links" = {
        pods    = local.of.subscribe.podSelector
        ingress = [{ from = [local.of.subscribe], ports = [{ protocol = "TCP", port = local.ports.link }] }]
        egress  = [{ to = [local.of.subscribe], ports = [{ protocol = "TCP", port = local.ports.link }] }]
      }
      # The egress tier: webhooks leave from here and from nowhere else.
      "webhooks" = { pods = local.of.subscribe.podSelector, egress = local.outside }
      "migrate"  = { pods = local.of.migrate.podSelector, egress = [local.to_postgres] }
      "front" = {
        pods = local.of.front.podSelector
        ingress = concat(
          [merge(
            { ports = [{ protocol = "TCP", port = local.ports[local.public_port] }] },
            { for name, from in { from = [for cidr in var.front.allow : { ipBlock = { cidr = cidr } }] } : name => from if length(from) > 0 },
          )],
          [
            { from = [local.of["export-runner"]], ports = [{ protocol = "TCP", port = local.ports.http }] },
            { from = local.prometheus, ports = [{ protocol = "TCP", port = local.ports.front_metrics }] },
          ],
        )
        egress = [{ to = [for role in local.balanced : local.of[role]], ports = [{ protocol = "TCP", port = local.ports.http }] }]
      }
    },
    { for backup in local.backups : "backup" => { pods = local.of.backup.podSelector, egress = [local.to_store, local.to_postgres] } },
    { for name, rule in { "issuers" = {
      pods   = { matchLabels = local.select, matchExpressions = [{ key = local.component, operator = "In", values = ["gateway", "publish"] }] }
      egress = local.outside
    } } : name => rule if var.network.issuers },
    { for exports in local.runners : "export-runner" => {
      pods = local.of["export-runner"].podSelector
      ingress = concat(
        [{ from = local.prometheus, ports = [{ protocol = "TCP", port = local.ports.runner }] }],
        [for pods in length(exports.spark_pods) > 0 ? [exports.spark_pods] : [] : {
          from = [{
            podSelector       = { matchLabels = pods }
            namespaceSelector = { matchLabels = { "kubernetes.io/metadata.name" = coalesce(exports.spark_namespace, var.namespace) } }
          }]
          ports = [for port in [local.ports.driver, local.ports.block_manager] : { protocol = "TCP", port = port, endPort = port + 15 }]
        }],
      )
      egress = concat(
        [{ to = [local.of.front], ports = [{ protocol = "TCP", port = local.ports.http }] }],
        [for each in exports.egress : {
          to = [local.blocks["exports ${each.cidr}"]], ports = [for port in each.ports : { protocol = "TCP", port = port }]
        } if length(each.ports) > 0],
      )
    } },
  )

  network_objects = [for name, rule in local.rules : {
    apiVersion = "networking.k8s.io/v1"
    kind       = "NetworkPolicy"
    metadata   = { name = "${var.name}-${name}", namespace = var.namespace, labels = local.labels }
    spec = merge(
      { podSelector = rule.pods, policyTypes = [for type in ["Ingress", "Egress"] : type if contains(keys(rule), lower(type))] },
      { for direction in ["ingress", "egress"] : direction => rule[direction] if length(try(rule[direction], [])) > 0 },
    )
  } if var.network.enabled]
}
