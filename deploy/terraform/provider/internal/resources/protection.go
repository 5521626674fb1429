package resources

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

// protect refuses a plan that loses messages, unless they are given up; it then says how many.
//
// Only what the state has of force_destroy counts, as it is the state that is destroyed: that the
// server refuses as well, should messages come after the plan.
func protect(
	ctx context.Context, call Call, shapes *shape.Shape,
	count func(context.Context, Call) (stake, error), answer *resource.ModifyPlanResponse,
) {
	if call.Prior == nil {
		return
	}
	why := "It is to be destroyed."
	if call.Plan != nil {
		causes := append(shapes.Replacing(call.Plan.Raw, call.Prior.Raw), answer.RequiresReplace...)
		if len(causes) == 0 {
			return
		}
		why = "It is to be replaced: " + written(causes) + " cannot be changed in place."
	}
	applied, planned := forceIn(ctx, call)
	lost, err := count(ctx, call)
	forced := applied && planned
	switch {
	case err != nil && !forced:
		answer.Diagnostics.AddError(summary(call, "may lose messages"),
			why+" How many are not acked cannot be found out now: "+err.Error())
	case err != nil:
		answer.Diagnostics.AddWarning(summary(call, "may lose messages"),
			why+" How many are not acked cannot be found out now: "+err.Error())
	case lost.total() > 0 && !forced:
		answer.Diagnostics.AddError(summary(call, "would lose messages"),
			fmt.Sprintf("%s That loses %s. %s", why, lost, advice(applied, planned)))
	case lost.total() > 0:
		answer.Diagnostics.AddWarning(summary(call, "loses messages"),
			fmt.Sprintf("%s That loses %s; force_destroy is true.", why, lost))
	}
	if lost.Note != "" {
		answer.Diagnostics.Append(diag.NewWarningDiagnostic(summary(call, "loses what is kept"), why+" "+lost.Note))
	}
}

func summary(call Call, what string) string {
	return fmt.Sprintf("Destroying %q %s", call.Name, what)
}

func advice(applied, planned bool) string {
	if planned && !applied {
		return "force_destroy = true holds once it is applied: apply it without the rest, then plan again."
	}
	return "Have them acked first, or set force_destroy = true, apply that alone, and plan again."
}

// forceIn is what is applied, and what is planned; of a destroy the same.
func forceIn(ctx context.Context, call Call) (applied, planned bool) {
	applied = isForced(ctx, call.Prior.GetAttribute)
	if call.Plan == nil {
		return applied, applied
	}
	return applied, isForced(ctx, call.Plan.GetAttribute)
}

func isForced(ctx context.Context, get func(context.Context, path.Path, any) diag.Diagnostics) bool {
	var force types.Bool
	get(ctx, path.Root(forceAttribute), &force)
	return force.ValueBool()
}

func written(causes path.Paths) string {
	var names []string
	for _, cause := range causes {
		names = append(names, cause.String())
	}
	return strings.Join(names, ", ")
}
