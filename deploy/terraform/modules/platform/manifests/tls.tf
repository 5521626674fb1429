# Certificates of the platform's own processes: one for servers, one for each store node. A process
# reads its files anew when they change.

locals {
  peer_tls       = var.peer_tls.mode != "off"
  peer_directory = "/etc/packetboat/peer"
  peer_secret    = coalesce(var.peer_tls.secret, "${var.name}-peer")
  peer_names = merge(
    { (local.peer_secret) = ["packetboat-server"] },
    { for id, node in local.present : "${local.peer_secret}-store-${id}" => ["packetboat-store-${id}", local.store_hosts[id]] },
  )

  peer_env = local.peer_tls ? [
    { name = "PACKETBOAT_PEER_TLS", value = var.peer_tls.mode },
    { name = "PACKETBOAT_PEER_TLS_CA", value = "${local.peer_directory}/ca.crt" },
    { name = "PACKETBOAT_PEER_TLS_CERT", value = "${local.peer_directory}/tls.crt" },
    { name = "PACKETBOAT_PEER_TLS_KEY", value = "${local.peer_directory}/tls.key" },
  ] : []
  peer_mounts  = local.peer_tls ? [{ name = "peer", mountPath = local.peer_directory, readOnly = true }] : []
  peer_volumes = { for secret in keys(local.peer_names) : secret => local.peer_tls ? [{ name = "peer", secret = { secretName = secret, defaultMode = 288 } }] : [] }

  tls_objects = [for secret, names in local.peer_names : {
    apiVersion = "cert-manager.io/v1"
    kind       = "Certificate"
    metadata   = { name = secret, namespace = var.namespace, labels = local.labels }
    spec = {
      secretName = secret
      dnsNames   = names
      duration   = var.peer_tls.duration
      usages     = ["digital signature", "key encipherment", "server auth", "client auth"]
      privateKey = { algorithm = "ECDSA", size = 256, rotationPolicy = "Always" }
      issuerRef  = { name = var.peer_tls.issuer.name, kind = var.peer_tls.issuer.kind, group = "cert-manager.io" }
    }
  } if local.peer_tls && var.peer_tls.issuer != null]
}
