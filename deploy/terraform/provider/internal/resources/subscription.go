package resources

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const (
	pushAttribute = "push"
	typeAttribute = "type"
	rateAttribute = "rate_limit"
	hidden        = "set"
)

// Subscription waits for pulls, or brings messages to an endpoint.
func Subscription() Kind {
	kind := Kind{
		Name: "subscription", Collection: "/subscriptions",
		Body: "SubscriptionCreate", Answer: "Subscription",
		Text: "An independent reader of a topic, whose consumers share its messages. With `push` they " +
			"are brought to an endpoint, else they wait for pulls.",
		Forced: true,
		MadeAt: func(body map[string]any) string {
			topic, _ := body["topic"].(string)
			return "/topics/" + url.PathEscape(topic) + "/subscriptions"
		},
		Options: subscriptionOptions(),
		Own: map[string]*shape.Shape{
			startAttribute: start(),
			forceAttribute: forceDestroy("Destroy it also when something is lost by it: messages that " +
				"are not acked or delayed, open dead letters. Holds once it is applied."),
		},
		Sending:  sendSubscription,
		Received: receiveStart, Completed: completeSubscription,
		Made: renewLostSigning, Changed: renewSigning,
		Observed: backlog(), Observe: observe(backlogOfSubscription),
	}
	maps.Copy(kind.Own, signingAttributes())
	maps.Copy(kind.Own, secretHeaders())
	shapes := kind.shape()
	kind.Plan = func(
		ctx context.Context, call Call, _ resource.ModifyPlanRequest, answer *resource.ModifyPlanResponse,
	) {
		if call.Plan != nil {
			planType(ctx, call, answer)
			planSecrets(ctx, call, answer)
		}
		protect(ctx, call, kind, shapes, heldSubscription, answer)
	}
	return kind
}

func subscriptionOptions() shape.Options {
	return shape.Options{
		"topic":        {Replace: true, Required: true, Also: "It cannot change."},
		typeAttribute:  {Chosen: true, Also: "Left out, it is `push` where `push` is given, else `pull`."},
		"delivery":     {Replace: true, Also: "It cannot change."},
		"ordered":      {Replace: true},
		startAttribute: {Omit: true},
		"state":        {OnlyRead: true},
		"state_reason": {OnlyRead: true},
		"push.headers": {
			Sensitive: true, Masked: hidden,
			Instead: "Headers of each request. Their values are not shown again, so after an import the " +
				"first apply writes them.",
		},
		"push.signing": {
			Set: true, Chosen: true,
		},
		"push.disable_after_seconds": {
			Nothing: json.Number("0"),
			Instead: "Seconds of failures after which the endpoint is disabled; 0 means never.",
		},
		"push.signing_secrets": {Omit: true},
	}
}

// sendSubscription leaves out of a change what never changes.
func sendSubscription(_ context.Context, _ Call, body map[string]any, update bool) error {
	sendStart(body, update)
	sendHeaders(body)
	if update {
		for _, name := range []string{"topic", "delivery", "ordered"} {
			delete(body, name)
		}
	}
	return nil
}

func completeSubscription(ctx context.Context, call Call, answer map[string]any) error {
	completeHeaders(ctx, call, answer)
	return completeSecrets(ctx, call, answer)
}

// planType: the type goes with `push`, and need not be said.
func planType(ctx context.Context, call Call, answer *resource.ModifyPlanResponse) {
	var push types.Object
	var said types.String
	call.Plan.GetAttribute(ctx, path.Root(pushAttribute), &push)
	call.Config.GetAttribute(ctx, path.Root(typeAttribute), &said)
	if push.IsUnknown() || said.IsUnknown() {
		return
	}
	meant := "pull"
	if !push.IsNull() {
		meant = "push"
	}
	if said.IsNull() {
		answer.Diagnostics.Append(answer.Plan.SetAttribute(ctx, path.Root(typeAttribute), meant)...)
	} else if said.ValueString() != meant {
		answer.Diagnostics.AddAttributeError(path.Root(typeAttribute), "Type and push do not go together",
			"A subscription with `push` is of the type push, one without it is of the type pull.")
	}
	answer.Diagnostics.Append(checkRate(ctx, *call.Config)...)
}

// checkRate: one without members would be none, and the state would not be what was asked for.
func checkRate(ctx context.Context, config tfsdk.Config) diag.Diagnostics {
	var rate types.Object
	config.GetAttribute(ctx, path.Root(rateAttribute), &rate)
	if rate.IsNull() || rate.IsUnknown() {
		return nil
	}
	for _, member := range rate.Attributes() {
		if !member.IsNull() {
			return nil
		}
	}
	return diag.Diagnostics{diag.NewAttributeErrorDiagnostic(path.Root(rateAttribute), "No limit",
		"Give one of its members, or leave rate_limit out.")}
}
