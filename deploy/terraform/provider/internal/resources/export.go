package resources

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

// Export writes topics into a table of a lake.
func Export() Kind {
	read := shape.Option{OnlyRead: true}
	kind := Kind{
		Name: "export", Collection: "/exports", Body: "ExportCreate", Answer: "Export",
		Text: "Topics that are written into a table of a lake. Destroyed, it leaves its table as it is.",
		Options: shape.Options{
			"topic":        {Replace: true},
			startAttribute: {Replace: true, Chosen: true, Moment: true, Also: "Left out: `earliest` of a new one."},
			"lake":         {Replace: true},
			"table":        {Replace: true},
			"format":       {Replace: true},
			"body":         {Replace: true},
			"partition_by": {Replace: true},
			"key_buckets":  {Replace: true},
			"maintain_cron": {Chosen: true, Nothing: "", Instead: "When its table is maintained; \"\": when it " +
				"is asked to. Left out: daily, of a new one of the format iceberg."},
			"state": read, "next_runs": read, "rows": read, "rejected": read, "filtered": read, "bytes": read,
			"expired": read, "lag_messages": read, "failure": read, "table_state": read, "rejects_state": read,
			"positions": {Omit: true}, "last_run": {Omit: true},
		},
	}
	shapes := kind.shape()
	kind.Plan = func(
		ctx context.Context, call Call, _ resource.ModifyPlanRequest, answer *resource.ModifyPlanResponse,
	) {
		warnOfLag(ctx, call, shapes, answer)
	}
	return kind
}

// warnOfLag says what is not in the table yet, and may now never be.
func warnOfLag(
	ctx context.Context, call Call, shapes *shape.Shape, answer *resource.ModifyPlanResponse,
) {
	if call.Prior == nil || call.Plan != nil && len(shapes.Replacing(call.Plan.Raw, call.Prior.Raw)) == 0 {
		return
	}
	found, err := call.Do(ctx, http.MethodGet, call.Path, nil)
	if lag := integerIn(found.Body, "lag_messages"); err == nil && lag > 0 {
		answer.Diagnostics.AddWarning(
			fmt.Sprintf("Destroying the export %q leaves %s out of its table", call.Name, messages(lag)),
			"They are not exported yet, and are no longer kept for it. Another run of it brings them first.")
	}
}
