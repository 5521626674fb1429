package resources

import "github.com/packetboat/terraform-provider-packetboat/internal/shape"

// Issuer is whose tokens a tenant trusts.
func Issuer() Kind {
	return Kind{
		Name: "issuer", Collection: "/issuers", Body: "IssuerBody", Answer: "Issuer",
		Text:       "An OpenID Connect issuer whose tokens the tenant trusts.",
		ForceOwner: true,
		Options: shape.Options{
			"algorithms": {Set: true},
		},
	}
}
