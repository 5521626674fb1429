# No server: what the module makes of its variables is in the plan.

mock_provider "packetboat" {}

run "nothing_is_made_of_nothing" {
  command = plan

  assert {
    condition     = length(output.topics) == 0 && output.tenant == null
    error_message = "A call without variables makes something."
  }
}

run "without_a_tenant_everything_is_where_the_provider_works" {
  command = plan

  variables {
    topics = { orders = {} }
  }

  assert {
    condition     = length(packetboat_tenant.this) == 0 && output.tenant == null
    error_message = "A tenant is made or named that nobody asked for."
  }
}

run "a_tenant_has_all_that_the_call_names" {
  command = plan

  variables {
    labels        = { cost = "4711" }
    tenant        = { name = "harbour", display_name = "Harbour", labels = { plan = "small" } }
    quota         = { topics = 20, weight = 2 }
    schemas       = { arrival = { definition = "{}" } }
    topics        = { arrivals = { schema = "arrival" } }
    subscriptions = { pilots = { topic = "arrivals", dead_letters = {} } }
    schedules     = { tide = { topic = "arrivals", cron = "@hourly", message = { data = "{}" } } }
    exports       = { arrivals = { topic = "arrivals" } }
    clients       = { radar = { grants = { publisher = ["topics/arrivals"] } } }
    policies      = { people = { role = "viewer", members = ["issuer:corp#*"] } }
    api_keys      = { board = { scopes = ["read"], labels = { floor = "2" } } }
  }

  assert {
    condition     = packetboat_tenant.this[0].name == "harbour"
    error_message = "The tenant is not made."
  }
  assert {
    condition     = packetboat_tenant.this[0].labels == tomap({ cost = "4711", plan = "small" })
    error_message = "Labels of the call and of the tenant are not joined."
  }
  assert {
    condition     = packetboat_quota.this[0].limits.topics == 20 && packetboat_quota.this[0].weight == 2
    error_message = "The quota is not what was said."
  }
  assert {
    condition = alltrue([
      for each in concat(
        values(packetboat_schema.this), values(packetboat_topic.this),
        values(packetboat_topic.dead_letters), values(packetboat_subscription.this),
        values(packetboat_schedule.this), values(packetboat_export.this),
        values(packetboat_client.this), values(packetboat_policy.of_client),
        values(packetboat_policy.this), values(packetboat_api_key.this), packetboat_quota.this,
      ) : each.tenant == "harbour"
    ])
    error_message = "Something is in another tenant."
  }
  assert {
    condition     = packetboat_api_key.this["board"].labels == tomap({ cost = "4711", floor = "2" })
    error_message = "Labels of the call and of a key are not joined."
  }
}

run "a_tenant_that_is_there_is_worked_in_and_not_made" {
  command = plan

  variables {
    tenant = { name = "harbour", create = false }
    quota  = { topics = 20 }
    topics = { arrivals = {} }
  }

  assert {
    condition     = length(packetboat_tenant.this) == 0 && output.tenant == "harbour"
    error_message = "A tenant is made although it is there."
  }
  assert {
    condition     = packetboat_topic.this["arrivals"].tenant == "harbour" && packetboat_quota.this[0].tenant == "harbour"
    error_message = "What is made is in another tenant."
  }
}

run "a_client_has_a_policy_for_each_role" {
  command = plan

  variables {
    clients = {
      radar = { grants = { publisher = ["topics/arrivals"], viewer = ["*"] } }
      idle  = {}
    }
  }

  assert {
    condition     = join(",", keys(packetboat_policy.of_client)) == "radar-publisher,radar-viewer"
    error_message = "There is not a policy for each grant."
  }
  assert {
    condition     = packetboat_policy.of_client["radar-publisher"].members == toset(["client:radar"])
    error_message = "The policy is not the client's."
  }
  assert {
    condition     = packetboat_policy.of_client["radar-publisher"].resources == toset(["topics/arrivals"])
    error_message = "The policy is not for the resources that were named."
  }
}

run "a_quota_without_a_tenant_is_refused" {
  command = plan

  variables {
    quota = { topics = 1 }
  }

  expect_failures = [var.quota]
}
