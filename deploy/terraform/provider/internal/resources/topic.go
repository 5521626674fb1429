package resources

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const partitionsAttribute = "partitions"

// Topic is never destroyed with messages that somebody still has to get, unless that is said.
func Topic() Kind {
	kind := Kind{
		Name: "topic", Collection: "/topics", Body: "TopicCreate", Answer: "Topic",
		Text:   "A named stream of messages.",
		Forced: true,
		Options: shape.Options{
			partitionsAttribute: {Chosen: true, Also: "More are added in place; fewer is another " +
				"topic. Left out: 4 of a new one, and what it has of one that is there."},
			"priorities": {Replace: true},
			"full":       {OnlyRead: true},
		},
		Own: map[string]*shape.Shape{
			forceAttribute: forceDestroy("Destroy it also when something is lost by it: messages that " +
				"are not acked, delayed or not exported, snapshots, open dead letters. Holds once it is applied."),
		},
		Save:     saveTopic,
		Observed: backlog(), Observe: observe(backlogOfTopic),
	}
	shapes := kind.shape()
	kind.Plan = func(
		ctx context.Context, call Call, request resource.ModifyPlanRequest, answer *resource.ModifyPlanResponse,
	) {
		if fewerPartitions(ctx, call) {
			answer.RequiresReplace.Append(path.Root(partitionsAttribute))
		}
		protect(ctx, call, kind, shapes, heldTopic, answer)
	}
	return kind
}

func fewerPartitions(ctx context.Context, call Call) bool {
	if call.Prior == nil || call.Plan == nil {
		return false
	}
	var before, planned types.Int64
	call.Prior.GetAttribute(ctx, path.Root(partitionsAttribute), &before)
	call.Plan.GetAttribute(ctx, path.Root(partitionsAttribute), &planned)
	return !planned.IsUnknown() && planned.ValueInt64() < before.ValueInt64()
}

// saveTopic changes what a PUT can, then adds partitions.
func saveTopic(ctx context.Context, call Call, body map[string]any, ifMatch string) (client.Answer, error) {
	wanted := body[partitionsAttribute]
	delete(body, partitionsAttribute)
	saved, err := call.Client.Do(ctx, client.Request{
		Method: http.MethodPut, Path: call.Path, Tenant: call.Tenant, Body: body, IfMatch: ifMatch,
	})
	if err != nil || wanted == nil || wanted == saved.Body[partitionsAttribute] {
		return saved, err
	}
	if err := grow(ctx, call, wanted.(json.Number)); err != nil {
		return saved, err
	}
	return call.Do(ctx, http.MethodGet, call.Path, nil)
}

// grow asks again until the partitions are there: 202 is answered while groups are waited for.
func grow(ctx context.Context, call Call, partitions json.Number) error {
	return call.Client.Until(ctx, func() (bool, error) {
		answer, err := call.Do(ctx, http.MethodPost, call.Path+":grow",
			map[string]any{partitionsAttribute: partitions})
		return answer.Status == http.StatusOK, err
	})
}
