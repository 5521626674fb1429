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

// protect refuses a plan that loses something, unless it is given up; it then says what and how much.
//
// Only what the state has of force_destroy counts, as it is the state that is destroyed: that the
// server refuses as well, should messages come after the plan.
func protect(
	ctx context.Context, call Call, kind Kind, shapes *shape.Shape,
	count func(context.Context, Call) (stake, error), answer *resource.ModifyPlanResponse,
) {
	if call.Prior == nil {
		return
	}
	why := "It is to be destroyed. "
	if call.Plan != nil {
		causes := append(shapes.Replacing(call.Plan.Raw, call.Prior.Raw), answer.RequiresReplace...)
		if len(causes) == 0 {
			return
		}
		why = "It is to be replaced: " + written(causes) + " cannot be changed in place. "
	}
	what := fmt.Sprintf("Destroying the %s %q ", kind.Name, call.Name)
	applied, planned := forceIn(ctx, call)
	forced := applied && planned
	lost, err := count(ctx, call)
	switch {
	case err != nil:
		say(answer, forced, what+"may lose messages",
			why+"What would be lost cannot be found out now: "+err.Error())
	case len(lost.Holds) > 0 && forced:
		say(answer, true, what+"loses "+lost.summary(),
			fmt.Sprintf("%sThat loses %s. force_destroy is true.", why, lost))
	case len(lost.Holds) > 0:
		say(answer, false, what+"would lose "+lost.summary(),
			fmt.Sprintf("%sThat loses %s. %s %s", why, lost, lost.advice(), advice(applied, planned)))
	}
	if lost.Note != "" {
		say(answer, true, what+"loses what is kept", why+lost.Note)
	}
}

// say refuses the plan, or allows it with a warning.
func say(answer *resource.ModifyPlanResponse, allowed bool, summary, detail string) {
	if allowed {
		answer.Diagnostics.AddWarning(summary, detail)
	} else {
		answer.Diagnostics.AddError(summary, detail)
	}
}

func advice(applied, planned bool) string {
	if planned && !applied {
		return "force_destroy = true holds once it is applied: apply it without the rest, then plan again."
	}
	return "Or give it up: set force_destroy = true, apply that alone, and plan again."
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
