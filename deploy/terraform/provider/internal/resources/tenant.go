package resources

import "github.com/packetboat/terraform-provider-packetboat/internal/shape"

// Tenant is made and removed by operators.
func Tenant() Kind {
	return Kind{
		Name: "tenant", Collection: "/tenants", Body: "TenantBody", Answer: "Tenant",
		Text: "The owner of topics, subscriptions and all other objects, which sees nothing of other tenants. " +
			"For operators.",
		AboveTenants: true, Forced: true,
		Options: shape.Options{
			"egress_allowed":  {Set: true},
			"issuers_allowed": {Set: true},
			// Clients are resources of their own, whose secrets are known when a lost answer is not.
			"owner": {Omit: true},
		},
		Own: map[string]*shape.Shape{
			forceAttribute: forceDestroy("Destroy it also when it has topics, with all that is " +
				"published to them."),
		},
		Gone: func(answer map[string]any) bool { return answer["state"] == "deleting" },
	}
}
