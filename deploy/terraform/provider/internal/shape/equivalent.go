package shape

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
)

// equivalent keeps what is in the state where the configuration says the same in other words: JSON
// with other spaces, a time with another offset.
type equivalent struct{ shape *Shape }

func (e equivalent) Description(context.Context) string {
	return "what means the same is no change"
}

func (e equivalent) MarkdownDescription(ctx context.Context) string { return e.Description(ctx) }

func (e equivalent) PlanModifyString(
	_ context.Context, request planmodifier.StringRequest, answer *planmodifier.StringResponse,
) {
	if request.StateValue.IsNull() || request.PlanValue.IsNull() || request.PlanValue.IsUnknown() {
		return
	}
	before, planned := request.StateValue.ValueString(), request.PlanValue.ValueString()
	if e.shape.same(before, planned) {
		answer.PlanValue = request.StateValue
	}
}
