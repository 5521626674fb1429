# No server: what the module makes of topics and of who reads them is in the plan.

mock_provider "packetboat" {}

variables {
  topics = { orders = {} }
}

run "a_subscription_is_pulled_unless_it_has_an_endpoint" {
  command = plan

  variables {
    topics = { orders = {}, events = {} }
    subscriptions = {
      billing = { topic = "orders" }
      erp = {
        topic = "orders"
        push  = { url = "https://erp.example.com/orders", signing = ["v1"], events_topic = "events" }
      }
    }
    push_headers = { erp = { Authorization = "Bearer of-erp" } }
  }

  assert {
    condition     = packetboat_subscription.this["billing"].type == "pull" && packetboat_subscription.this["billing"].push == null
    error_message = "What has no endpoint is not pulled."
  }
  assert {
    condition     = packetboat_subscription.this["erp"].type == "push"
    error_message = "What has an endpoint is not pushed."
  }
  assert {
    condition     = packetboat_subscription.this["erp"].push.url == "https://erp.example.com/orders"
    error_message = "It is pushed elsewhere."
  }
  assert {
    condition     = output.subscriptions["erp"].endpoint == "https://erp.example.com/orders" && output.subscriptions["billing"].endpoint == null
    error_message = "The output does not say who is pushed where."
  }
}

run "dead_letters_have_a_topic_and_an_end_of_attempts" {
  command = plan

  variables {
    subscriptions = {
      billing = { topic = "orders", dead_letters = {} }
      fraud   = { topic = "orders", dead_letters = {}, retry = { max_attempts = 9, min_backoff_seconds = 3 } }
      audit   = { topic = "orders" }
    }
  }

  assert {
    condition     = join(",", keys(packetboat_topic.dead_letters)) == "billing-dead-letters,fraud-dead-letters"
    error_message = "Not each subscription with dead letters has a topic for them."
  }
  assert {
    condition     = packetboat_subscription.this["billing"].dead_letter_topic == "billing-dead-letters" && packetboat_subscription.this["audit"].dead_letter_topic == null
    error_message = "Dead letters do not go to their topic."
  }
  assert {
    condition     = packetboat_subscription.this["billing"].retry.max_attempts == 5
    error_message = "Without a number of attempts nothing would ever be a dead letter."
  }
  assert {
    condition     = packetboat_subscription.this["fraud"].retry.max_attempts == 9 && packetboat_subscription.this["fraud"].retry.min_backoff_seconds == 3
    error_message = "What retry says does not hold."
  }
  assert {
    condition     = packetboat_topic.dead_letters["billing-dead-letters"].retention.mode == "retain"
    error_message = "Letters go once somebody has read them."
  }
}

run "subscriptions_may_share_a_topic_for_dead_letters" {
  command = plan

  variables {
    topics          = { orders = {}, failed = {} }
    existing_topics = ["lost"]
    subscriptions = {
      billing = { topic = "orders", dead_letters = { topic = "unpaid", retention_seconds = 3600 } }
      fraud   = { topic = "orders", dead_letters = { topic = "unpaid", retention_seconds = 7200 } }
      audit   = { topic = "orders", dead_letters = { topic = "failed" } }
      erp     = { topic = "orders", dead_letters = { topic = "lost" } }
    }
  }

  assert {
    condition     = join(",", keys(packetboat_topic.dead_letters)) == "unpaid"
    error_message = "A topic is made that is there, or is not made."
  }
  assert {
    condition     = packetboat_topic.dead_letters["unpaid"].retention.seconds == 7200
    error_message = "A shared topic keeps letters shorter than somebody asked for."
  }
  assert {
    condition     = [for name in ["audit", "erp"] : packetboat_subscription.this[name].dead_letter_topic] == ["failed", "lost"]
    error_message = "Letters do not go where it was said."
  }
}

run "messages_are_kept_unless_somebody_says_so" {
  command = plan

  variables {
    topics        = { orders = {}, scratch = { force_destroy = true } }
    subscriptions = { billing = { topic = "orders", dead_letters = {} } }
  }

  assert {
    condition     = !packetboat_topic.this["orders"].force_destroy && !packetboat_subscription.this["billing"].force_destroy && !packetboat_topic.dead_letters["billing-dead-letters"].force_destroy
    error_message = "Messages may go that nobody gave up."
  }
  assert {
    condition     = packetboat_topic.this["scratch"].force_destroy
    error_message = "A topic's own word does not hold."
  }
}

run "one_word_gives_up_all_messages" {
  command = plan

  variables {
    force_destroy = true
    topics        = { orders = {}, ledger = { force_destroy = false } }
    subscriptions = { billing = { topic = "orders" } }
  }

  assert {
    condition     = packetboat_topic.this["orders"].force_destroy && packetboat_subscription.this["billing"].force_destroy
    error_message = "The word of the call does not hold."
  }
  assert {
    condition     = !packetboat_topic.this["ledger"].force_destroy
    error_message = "A topic's own word does not hold."
  }
}

run "a_topic_that_nobody_makes_is_refused" {
  command = plan

  variables {
    subscriptions = { billing = { topic = "order" } }
    schedules     = { tide = { topic = "order", cron = "@hourly", message = { data = "{}" } } }
  }

  expect_failures = [var.subscriptions, var.schedules]
}

run "a_topic_made_elsewhere_is_named_as_such" {
  command = plan

  variables {
    existing_topics = ["elsewhere"]
    subscriptions   = { billing = { topic = "elsewhere" } }
  }

  assert {
    condition     = packetboat_subscription.this["billing"].topic == "elsewhere"
    error_message = "It subscribes to another topic."
  }
}

run "a_schema_that_nobody_makes_is_refused" {
  command = plan

  variables {
    topics = { orders = { schema = "order" } }
  }

  expect_failures = [var.topics]
}
