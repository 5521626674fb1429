package resources

import (
	"encoding/json"

	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

// Quota is what a tenant may use. Each tenant has one from the start, so that making it is saying
// it, and destroying it is going back to the platform's defaults.
func Quota() Kind {
	tenant := shape.OfOwn(shape.Text, "The name of the tenant.", nil)
	tenant.Required, tenant.Replace = true, true
	own := shape.OfData(contract.Schema("QuotaBody").Properties["limits"], nil)
	inForce := shape.OfData(contract.Schema("Quotas").Properties["limits"], nil).Described(own)
	inForce.Text = "All limits as they hold: the tenant's own, and the platform's defaults."
	return Kind{
		Name: "quota", Body: "QuotaBody", Answer: "Quotas", ID: tenantAttribute,
		Text: "The limits and the weight of a tenant. One for each tenant; after it is destroyed, " +
			"the platform's defaults hold. For operators.",
		AboveTenants: true,
		At:           func(tenant string) string { return "/tenants/" + tenant + "/quotas" },
		Reset:        func() map[string]any { return map[string]any{} },
		Options: shape.Options{
			"limits": {Instead: "The tenant's own; one that is left out has the platform's default, " +
				"0 is no limit."},
			"own":    {Omit: true},
			"exempt": {Omit: true}, // in_force shows it: such a limit is null there
		},
		Own:      map[string]*shape.Shape{tenantAttribute: tenant, "in_force": inForce},
		Received: ownLimits,
	}
}

// ownLimits: the API shows `limits` that hold, and `own`; a configuration says its own.
func ownLimits(answer map[string]any) {
	own, _ := answer["own"].(map[string]any)
	limits := map[string]any{}
	for name, limit := range own {
		if limit == nil { // as 0, which can be told from one that is left out
			limit = json.Number("0")
		}
		limits[name] = limit
	}
	answer["in_force"], answer["limits"] = answer["limits"], limits
}
