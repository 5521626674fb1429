variables {
  image    = "registry.example.com/packetboat:0.3.0"
  issuer   = "https://mq.example.com"
  postgres = { url = "postgresql://u:p@postgres:5432/db", cidrs = ["10.9.0.0/16"] }
  front    = { plain_http = true }
}

run "generated" {
  assert {
    condition     = output.secret_names == ["Secret/packetboat-secrets"]
    error_message = "There has to be one Secret."
  }
  assert {
    condition     = can(regex("^[0-9a-f]{32}$", base64decode(output.secrets["Secret/packetboat-secrets"].data["cluster-uid"])))
    error_message = "The cluster's uid is 16 bytes."
  }
  assert {
    condition     = can(regex("^a:[0-9a-f]{64}$", base64decode(output.secrets["Secret/packetboat-secrets"].data["seal-keys"])))
    error_message = "A seal key is 32 bytes, and has a name."
  }
}

# Each run goes on with the state of the one before.
run "a_second_store_secret_behind_the_first" {
  variables {
    secrets = { store_secret = ["a", "b"] }
  }

  assert {
    condition     = startswith(base64decode(output.secrets["Secret/packetboat-secrets"].data["store-secret"]), "${base64decode(run.generated.secrets["Secret/packetboat-secrets"].data["store-secret"])},")
    error_message = "The first one stays as it was, and another is behind it."
  }
  assert {
    condition     = output.secrets["Secret/packetboat-secrets"].data["ack-secret"] == run.generated.secrets["Secret/packetboat-secrets"].data["ack-secret"]
    error_message = "Other secrets stay."
  }
  assert {
    condition     = output.workloads["Deployment/packetboat-publish"].spec.template.metadata.annotations != run.generated.workloads["Deployment/packetboat-publish"].spec.template.metadata.annotations
    error_message = "Servers are restarted for it."
  }
}

run "then_in_front" {
  variables {
    secrets = { store_secret = ["b", "a"] }
  }

  assert {
    condition = (
      split(",", base64decode(output.secrets["Secret/packetboat-secrets"].data["store-secret"])) ==
      reverse(split(",", base64decode(run.a_second_store_secret_behind_the_first.secrets["Secret/packetboat-secrets"].data["store-secret"])))
    )
    error_message = "The same two, the other way round."
  }
}

run "the_operators_own" {
  variables {
    postgres = { cidrs = ["10.9.0.0/16"] }
    secrets  = { existing = "vault", migrate_key = "owner-url", revision = "7" }
  }

  assert {
    condition     = output.secret_names == []
    error_message = "No Secret is made."
  }
  assert {
    condition     = output.migration[keys(output.migration)[0]].spec.template.spec.containers[0].env[0].valueFrom.secretKeyRef == { name = "vault", key = "owner-url" }
    error_message = "The Job migrates with the login that is said."
  }
}

run "a_url_twice" {
  command = plan
  variables {
    secrets = { existing = "vault" }
  }
  expect_failures = [var.postgres]
}

run "nobody_says_where_postgres_is" {
  command = plan
  variables {
    postgres = { url = "postgresql://u:p@postgres:5432/db" }
  }
  expect_failures = [var.postgres]
}
