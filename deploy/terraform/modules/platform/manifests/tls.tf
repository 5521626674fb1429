# Certificates of the platform's own processes: one for servers, one for each store node. What peers
# look at is the installation's name in them. A process reads its files anew when they change.

locals {
  peer_tls       = var.peer_tls.mode != "off"
  peer_directory = "/etc/packetboat/peer"
  peer_name      = coalesce(var.peer_tls.name, "${var.name}.${local.domain}")
  peer_owners    = merge({ servers = "${var.name}-peer" }, { for id, node in local.present : "store-${id}" => "${var.name}-peer-store-${id}" })
  peer_secrets   = { for owner, secret in local.peer_owners : owner => coalesce(var.peer_tls.secret, secret) }

  peer_env = [for name, value in {
    PACKETBOAT_PEER_TLS      = var.peer_tls.mode
    PACKETBOAT_PEER_TLS_CA   = "${local.peer_directory}/ca.crt"
    PACKETBOAT_PEER_TLS_CERT = "${local.peer_directory}/tls.crt"
    PACKETBOAT_PEER_TLS_KEY  = "${local.peer_directory}/tls.key"
    PACKETBOAT_PEER_TLS_NAME = local.peer_name
  } : { name = name, value = value } if local.peer_tls]
  peer_mounts  = [for directory in [local.peer_directory] : { name = "peer", mountPath = directory, readOnly = true } if local.peer_tls]
  peer_volumes = { for owner, secret in local.peer_secrets : owner => [for name in [secret] : { name = "peer", secret = { secretName = name, defaultMode = 288 } } if local.peer_tls] }

  tls_objects = [for owner, secret in local.peer_owners : {
    apiVersion = "cert-manager.io/v1"
    kind       = "Certificate"
    metadata   = { name = secret, namespace = var.namespace, labels = local.labels }
    spec = {
      secretName = secret
      commonName = substr("${var.name} ${owner}", 0, 64)
      dnsNames   = [local.peer_name]
      duration   = var.peer_tls.duration
      usages     = ["digital signature", "server auth", "client auth"]
      privateKey = { algorithm = "ECDSA", size = 256, rotationPolicy = "Always" }
      issuerRef  = { name = var.peer_tls.issuer.name, kind = var.peer_tls.issuer.kind, group = "cert-manager.io" }
    }
  } if local.peer_tls && var.peer_tls.issuer != null]
}
