# The balancer: HAProxy with the very file of deploy/haproxy, so that what is promised in
# docs/operations/load-balancing.md holds here, too: what a server has begun to receive is never sent
# twice, and a subscription stays with one forwarder. What is exchanged are addresses: servers are
# found by DNS, and hashed by address, so that all balancers agree.

locals {
  haproxy_file = file("${path.module}/files/haproxy/haproxy.cfg")

  # How many servers of a role a balancer looks for at most.
  slots = { for role in local.balanced : role => max(local.roles[role].replicas, local.roles[role].max_replicas) }
  # What of a server's line is a role's own.
  slot_options = { publish = "", subscribe = " hash-key addr", gateway = "" }
  templates = { for role in local.balanced : role =>
    "  server-template ${role}- ${local.slots[role]} ${local.components[role]}.${local.domain}:${local.ports.http} resolvers cluster init-addr none${local.slot_options[role]}\n"
  }
  resolvers = <<-EOT
    # Of the cluster, as /etc/resolv.conf says.
    resolvers cluster
      parse-resolv-conf
      accepted_payload_size 8192
      resolve_retries 3
      timeout resolve 1s
      timeout retry 1s
      hold valid 1s
      hold obsolete 5s
  EOT

  # With TLS, plain HTTP is for the cluster alone.
  public_port = var.front.tls_secret == null ? "http" : "https"
  tls_bind    = var.front.tls_secret == null ? "" : "  bind :${local.ports.https} ssl crt /etc/haproxy-tls/tls.crt alpn h2,http/1.1\n"
  tls_global  = var.front.tls_secret == null ? "" : "\n  ssl-load-extra-del-ext\n  ssl-default-bind-options ssl-min-ver TLSv1.2"

  # Each exchanged piece, and by what; one that is not there exactly once fails the output below.
  exchanges = [
    { old = "  user haproxy\n  group haproxy\n", new = "" },
    { old = "log /dev/log local0 notice", new = "log stdout format raw local0 notice" },
    { old = "  maxconn 20000\n", new = "  maxconn ${var.front.maxconn}\n" },
    { old = "default-path config", new = "default-path config${local.tls_global}" },
    { old = "frontend packetboat\n  bind :8080\n", new = "${local.resolvers}\nfrontend packetboat\n  bind :${local.ports.http}\n${local.tls_bind}" },
    { old = "default-server maxconn 256\n", new = "default-server maxconn ${ceil(256 / var.front.replicas)}\n" },
    { old = "default-server maxconn 2000\n", new = "default-server maxconn ${ceil(2000 / var.front.replicas)}\n" },
    { old = "bind 127.0.0.1:8405", new = "bind :${local.ports.front_metrics}" },
    { old = "  server publish-1 127.0.0.1:8101\n  server publish-2 127.0.0.1:8102\n", new = local.templates.publish },
    { old = "  server subscribe-1 127.0.0.1:8201\n  server subscribe-2 127.0.0.1:8202\n  server subscribe-3 127.0.0.1:8203\n", new = local.templates.subscribe },
    { old = "  server gateway-1 127.0.0.1:8301\n", new = local.templates.gateway },
  ]
  lost_exchanges = [for each in local.exchanges : each.old if length(split(each.old, local.haproxy_file)) != 2]
  haproxy_config = join("", [
    "# From deploy/haproxy/haproxy.cfg.\n",
    replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(
      local.haproxy_file,
      local.exchanges[0].old, local.exchanges[0].new),
      local.exchanges[1].old, local.exchanges[1].new),
      local.exchanges[2].old, local.exchanges[2].new),
      local.exchanges[3].old, local.exchanges[3].new),
      local.exchanges[4].old, local.exchanges[4].new),
      local.exchanges[5].old, local.exchanges[5].new),
      local.exchanges[6].old, local.exchanges[6].new),
      local.exchanges[7].old, local.exchanges[7].new),
      local.exchanges[8].old, local.exchanges[8].new),
      local.exchanges[9].old, local.exchanges[9].new),
    local.exchanges[10].old, local.exchanges[10].new),
  ])

  front_select  = merge(local.select, { (local.component) = "front" })
  front_labels  = merge(local.labels, { (local.component) = "front" })
  front_command = var.front.tls_secret == null ? ["haproxy", "-W", "-db", "-f", "/etc/haproxy/haproxy.cfg"] : ["sh", "/etc/haproxy/reload.sh"]
  front_files = merge(
    { "haproxy.cfg" = local.haproxy_config },
    { for name in fileset("${path.module}/files/haproxy/errors", "*.http") : name => file("${path.module}/files/haproxy/errors/${name}") },
    { for name, text in { "reload.sh" = file("${path.module}/files/reload.sh") } : name => text if var.front.tls_secret != null },
  )

  front_objects = concat([
    {
      apiVersion = "v1"
      kind       = "ConfigMap"
      metadata   = { name = local.components.front, namespace = var.namespace, labels = local.front_labels }
      data       = local.front_files
    },
    {
      apiVersion = "v1"
      kind       = "Service"
      metadata = merge(
        { name = var.name, namespace = var.namespace, labels = local.front_labels },
        { for name, value in { annotations = var.front.annotations } : name => value if length(value) > 0 },
      )
      spec = merge({
        type     = var.front.service_type
        selector = local.front_select
        ports    = [{ name = local.public_port, port = local.public_port == "https" ? 443 : 80, targetPort = local.public_port }]
        # So that the client's address is seen, by network policies and in X-Forwarded-For.
      }, { for name, policy in { externalTrafficPolicy = "Local" } : name => policy if var.front.service_type != "ClusterIP" })
    },
    {
      apiVersion = "v1"
      kind       = "Service"
      metadata   = { name = local.components.front, namespace = var.namespace, labels = local.front_labels }
      spec = {
        type     = "ClusterIP"
        selector = local.front_select
        ports    = [{ name = "http", port = 80, targetPort = "http" }]
      }
    },
    {
      apiVersion = "policy/v1"
      kind       = "PodDisruptionBudget"
      metadata   = { name = local.components.front, namespace = var.namespace, labels = local.front_labels }
      spec       = { maxUnavailable = 1, selector = { matchLabels = local.front_select } }
    },
    {
      apiVersion = "apps/v1"
      kind       = "Deployment"
      metadata   = { name = local.components.front, namespace = var.namespace, labels = local.front_labels }
      spec = {
        replicas             = var.front.replicas
        revisionHistoryLimit = 5
        selector             = { matchLabels = local.front_select }
        strategy             = { type = "RollingUpdate", rollingUpdate = { maxSurge = 1, maxUnavailable = 0 } }
        minReadySeconds      = 5
        template = {
          metadata = {
            labels      = local.front_labels
            annotations = { "packetboat.io/files" = sha256(jsonencode(local.front_files)) }
          }
          spec = merge(local.pod, {
            serviceAccountName = local.components.front
            securityContext    = merge(local.pod_security, { runAsUser = var.front.run_as, runAsGroup = var.front.run_as, fsGroup = var.front.run_as })
            # Long-polls end within a minute; streams are cut, and clients open them again.
            terminationGracePeriodSeconds = 90
            topologySpreadConstraints = [for key in ["kubernetes.io/hostname", var.store.zone_label] : {
              topologyKey       = key
              maxSkew           = 1
              whenUnsatisfiable = "ScheduleAnyway"
              labelSelector     = { matchLabels = local.front_select }
            }]
            containers = [{
              name            = "haproxy"
              image           = var.front.image
              imagePullPolicy = "IfNotPresent"
              command         = local.front_command
              ports = [for name, port in merge(
                { http = local.ports.http, metrics = local.ports.front_metrics },
                { for name, port in { https = local.ports.https } : name => port if name == local.public_port },
              ) : { name = name, containerPort = port }]
              livenessProbe  = { httpGet = { path = "/metrics", port = "metrics" }, periodSeconds = 20, timeoutSeconds = 5, failureThreshold = 3 }
              readinessProbe = { tcpSocket = { port = local.public_port }, periodSeconds = 2, timeoutSeconds = 2, failureThreshold = 2 }
              # New connections go elsewhere before it stops taking any; then it lets go in its own way.
              lifecycle       = { preStop = { exec = { command = ["sh", "-c", "sleep 10; kill -USR1 1; sleep 65"] } } }
              resources       = { requests = { cpu = var.front.cpu, memory = var.front.memory }, limits = { memory = var.front.memory } }
              securityContext = local.container_security
              volumeMounts = concat(
                [{ name = "files", mountPath = "/etc/haproxy", readOnly = true }, local.scratch.mount],
                [for secret in compact([var.front.tls_secret]) : { name = "tls", mountPath = "/etc/haproxy-tls", readOnly = true }],
              )
            }]
            volumes = concat(
              [{ name = "files", configMap = { name = local.components.front, items = [
                for name, _ in local.front_files : { key = name, path = endswith(name, ".http") ? "errors/${name}" : name }
              ] } }, local.scratch.volume],
              [for secret in compact([var.front.tls_secret]) : { name = "tls", secret = { secretName = secret, defaultMode = 288 } }],
            )
          })
        }
      }
    },
    ], [for ingress in var.front.ingress == null ? [] : [var.front.ingress] : {
      apiVersion = "networking.k8s.io/v1"
      kind       = "Ingress"
      metadata = merge(
        { name = var.name, namespace = var.namespace, labels = local.front_labels },
        { for name, value in { annotations = ingress.annotations } : name => value if length(value) > 0 },
      )
      spec = merge({
        rules = [{ host = ingress.host, http = { paths = [{
          path = "/", pathType = "Prefix", backend = { service = { name = var.name, port = { name = local.public_port } } }
        }] } }]
        },
        { for name, class in { ingressClassName = ingress.class } : name => class if class != null },
        { for name, secret in { tls = ingress.tls_secret } : name => [{ hosts = [ingress.host], secretName = secret }] if secret != null },
      )
  }])
}
