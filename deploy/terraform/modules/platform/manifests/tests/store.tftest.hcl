variables {
  image    = "registry.example.com/packetboat:0.3.0"
  issuer   = "https://mq.example.com"
  postgres = { url = "postgresql://u:p@postgres:5432/db", cidrs = ["10.9.0.0/16"] }
  front    = { plain_http = true }
}

run "three_nodes_from_the_beginning" {
  variables {
    store = { nodes = { 1 = { zone = "a" }, 2 = { zone = "b" }, 3 = { zone = "c" } } }
  }

  assert {
    condition = one([
      for each in output.workloads["StatefulSet/packetboat-store-2"].spec.template.spec.containers[0].env :
      each.value if each.name == "PACKETBOAT_STORE_NODES"
      ]) == join(",", [for id, zone in { 1 = "a", 2 = "b", 3 = "c" } :
      "${id}=packetboat-store-${id}-0.packetboat-store.packetboat.svc.cluster.local:9001@${zone}"
    ])
    error_message = "Each node has to know the first ones, and where they stand."
  }
  assert {
    condition     = output.workloads["StatefulSet/packetboat-store-2"].spec.template.spec.nodeSelector == { "topology.kubernetes.io/zone" = "b" }
    error_message = "A node has to stand where PACKETBOAT_STORE_NODES says."
  }
  assert {
    condition     = alltrue([for id in [1, 2, 3] : output.workloads["StatefulSet/packetboat-store-${id}"].spec.updateStrategy.type == "OnDelete"])
    error_message = "Nodes that are restarted at the same time are a majority."
  }
  assert {
    condition     = output.workloads["PodDisruptionBudget/packetboat-store"].spec.maxUnavailable == 1
    error_message = "One node of all of them may be evicted."
  }
}

run "a_node_is_replaced" {
  variables {
    store = { nodes = {
      1  = { zone = "a" }
      2  = { zone = "b", removed = true }
      3  = { zone = "c" }
      10 = { zone = "b", join = true }
    } }
  }

  assert {
    condition     = !contains(keys(output.workloads), "StatefulSet/packetboat-store-2")
    error_message = "A removed node does not run."
  }
  assert {
    condition = one([
      for each in output.workloads["StatefulSet/packetboat-store-10"].spec.template.spec.containers[0].env :
      join(",", regexall("[0-9]+=", each.value)) if each.name == "PACKETBOAT_STORE_NODES"
    ]) == "1=,2=,3="
    error_message = "Store nodes are told of the first ones, for good."
  }
  assert {
    condition = { for id in [1, 10] : id => length([
      for each in output.workloads["StatefulSet/packetboat-store-${id}"].spec.template.spec.containers[0].env :
      each if each.name == "PACKETBOAT_STORE_JOIN"
    ]) } == { 1 = 0, 10 = 1 }
    error_message = "Only a node that came later joins."
  }
  assert {
    condition = one([
      for each in output.workloads["Deployment/packetboat-publish"].spec.template.spec.containers[0].env :
      join(",", regexall("[0-9]+=", try(each.value, ""))) if each.name == "PACKETBOAT_STORE_NODES"
    ]) == "1=,3=,10="
    error_message = "Servers are told of the nodes that are there."
  }
}

run "half_of_the_nodes_in_a_zone" {
  command = plan
  variables {
    store = { nodes = { 1 = { zone = "a" }, 2 = { zone = "a" }, 3 = { zone = "b" }, 4 = { zone = "c" } } }
  }
  expect_failures = [var.store]
}

run "two_nodes" {
  command = plan
  variables {
    store = { nodes = { 1 = {}, 2 = {} } }
  }
  expect_failures = [var.store]
}

run "an_id_that_is_none" {
  command = plan
  variables {
    store = { nodes = { 0 = {}, 1 = {}, 2 = {} } }
  }
  expect_failures = [var.store]
}
