variables {
  image    = "registry.example.com/packetboat:0.3.0"
  issuer   = "https://mq.example.com"
  postgres = { url = "postgresql://u:p@postgres:5432/db", cidrs = ["10.9.0.0/16"] }
  front    = { plain_http = true }
}

run "by_processor_time" {
  assert {
    condition     = output.workloads["HorizontalPodAutoscaler/packetboat-subscribe"].spec.maxReplicas == 8
    error_message = "Without Prometheus, Kubernetes scales."
  }
  assert {
    condition     = !can(output.workloads["Deployment/packetboat-subscribe"].spec.replicas) && output.workloads["Deployment/packetboat-scheduler"].spec.replicas == 2
    error_message = "Who scales says how many there are."
  }
}

run "on_backlog" {
  variables {
    autoscaling = { prometheus_url = "http://prometheus.monitoring:9090" }
  }

  assert {
    condition     = strcontains(output.workloads["ScaledObject/packetboat-subscribe"].spec.triggers[1].metadata.query, "packetboat_subscribe_consumed_backlog")
    error_message = "Subscribe forwarders grow with the backlog."
  }
  assert {
    condition     = length([for key in keys(output.workloads) : key if startswith(key, "HorizontalPodAutoscaler/")]) == 0
    error_message = "Two that scale the same would quarrel."
  }
}

run "webhooks_by_a_proxy" {
  variables {
    network = { egress_proxy = "http://smoke.example.com:4750", egress_proxy_cidr = "10.8.0.7/32" }
  }

  assert {
    condition     = output.first["NetworkPolicy/packetboat-webhooks"].spec.egress[0].to == [{ ipBlock = { cidr = "10.8.0.7/32" } }]
    error_message = "With a proxy webhooks leave by it alone."
  }
  assert {
    condition     = output.first["NetworkPolicy/packetboat-webhooks"].spec.egress[0].ports == [{ protocol = "TCP", port = 4750 }]
    error_message = "At the proxy's port."
  }
}

run "certificates" {
  variables {
    peer_tls = { mode = "prefer", issuer = { name = "packetboat-ca" } }
    front    = { tls_secret = "mq-example-com" }
  }

  assert {
    condition     = length([for key in keys(output.first) : key if startswith(key, "Certificate/")]) == 4
    error_message = "One for servers, one for each store node."
  }
  assert {
    condition     = output.workloads["Service/packetboat"].spec.ports[0].port == 443 && output.workloads["Service/packetboat-front"].spec.ports[0].port == 80
    error_message = "HTTPS for the public, plain HTTP in the cluster."
  }
}

run "exports_with_a_cluster" {
  variables {
    exports = {
      image             = "registry.example.com/packetboat-exports:0.3.0"
      credential_secret = "export-runner"
      spark_pods        = { "spark-app" = "lake" }
      lakes = [
        { name = "default", warehouse = "s3://lake", spark_master = "local[2]" },
        { name = "large", warehouse = "s3://large", spark_master = "spark://spark:7077", spark_conf = { "spark.cores.max" = "8" } },
      ]
    }
  }

  assert {
    condition = jsondecode(base64decode(output.secrets["Secret/packetboat-lakes"].data["lakes.json"])).lakes[1].spark_conf == {
      "spark.cores.max" = "8", "spark.driver.port" = "7078", "spark.blockManager.port" = "7094"
    }
    error_message = "Executors of a cluster reach the driver at known ports."
  }
  assert {
    condition     = contains([for each in output.workloads["Deployment/packetboat-gateway"].spec.template.spec.containers[0].env : try("${each.name}=${each.value}", "")], "PACKETBOAT_EXPORT_LAKES=default,large")
    error_message = "Gateways know which lakes there are."
  }
}

run "an_image_that_may_be_another_tomorrow" {
  command = plan
  variables {
    image = "registry.example.com/packetboat:latest"
  }
  expect_failures = [var.image]
}

run "an_upgrade_by_steps" {
  variables {
    images = { migrate = "registry.example.com/packetboat:0.3.0", store = "registry.example.com/packetboat:0.3.0" }
  }

  assert {
    condition     = output.workloads["StatefulSet/packetboat-store-1"].spec.template.spec.containers[0].image == "registry.example.com/packetboat:0.3.0"
    error_message = "Store nodes go first."
  }
  assert {
    condition     = output.workloads["Deployment/packetboat-gateway"].spec.template == run.by_processor_time.workloads["Deployment/packetboat-gateway"].spec.template
    error_message = "Others stay as they were."
  }
}

run "a_front_without_a_certificate" {
  command = plan
  variables {
    front = {}
  }
  expect_failures = [var.front]
}

run "a_certificate_from_nowhere" {
  command = plan
  variables {
    peer_tls = { mode = "require" }
  }
  expect_failures = [var.peer_tls]
}

run "a_setting_that_the_module_makes" {
  command = plan
  variables {
    settings = { PACKETBOAT_STORE_NODES = "1=elsewhere:9001" }
  }
  expect_failures = [output.first]
}
