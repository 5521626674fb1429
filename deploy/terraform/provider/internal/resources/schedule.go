package resources

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const (
	messageAttribute = "message"
	dataAttribute    = "data"
	base64Attribute  = "data_base64"
	contentAttribute = "content_type"
)

// Schedule publishes a message by the clock.
func Schedule() Kind {
	return Kind{
		Name: "schedule", Collection: "/schedules", Body: "ScheduleCreate", Answer: "Schedule",
		Text: "A message that is published by the clock.",
		Options: shape.Options{
			"next_runs":       {OnlyRead: true},
			"last_run":        {OnlyRead: true},
			"last_message_id": {OnlyRead: true},
			"runs":            {OnlyRead: true},
			"missed":          {OnlyRead: true},
			"failure":         {OnlyRead: true},
			"message.data": {Plain: true, Absent: true, Instead: "The body: text, or JSON as jsonencode() writes it where " +
				"content_type is JSON."},
			"message.content_type": {Chosen: true},
		},
		Sending: sendMessage, Received: receiveMessage, Completed: completeMessage,
	}
}

// sendMessage: a JSON body is sent as JSON; all else is text.
func sendMessage(_ context.Context, _ Call, body map[string]any, _ bool) error {
	message, _ := body[messageAttribute].(map[string]any)
	text, ok := message[dataAttribute].(string)
	if ok && isJSON(textIn(message, contentAttribute)) && json.Valid([]byte(text)) {
		message[dataAttribute] = json.RawMessage(text)
	}
	return nil
}

// receiveMessage: a body is a text here, also one of JSON.
func receiveMessage(answer map[string]any) {
	message, _ := answer[messageAttribute].(map[string]any)
	data, there := message[dataAttribute]
	if _, text := data.(string); !there || text && !isJSON(textIn(message, contentAttribute)) {
		return
	}
	written, _ := json.Marshal(data)
	message[dataAttribute] = string(written)
}

// completeMessage: what was given as base64 is shown as text where it can be, and stays base64.
func completeMessage(ctx context.Context, call Call, answer map[string]any) error {
	var given types.String
	call.Get(ctx, path.Root(messageAttribute).AtName(base64Attribute), &given)
	message, _ := answer[messageAttribute].(map[string]any)
	text, ok := message[dataAttribute].(string)
	before, err := base64.StdEncoding.DecodeString(given.ValueString())
	if ok && !given.IsNull() && err == nil && shape.SameText(string(before), text) {
		delete(message, dataAttribute)
		message[base64Attribute] = given.ValueString()
	}
	return nil
}

// isJSON is as the server has it: application/json, or with a suffix that says so.
func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	kind = strings.TrimSpace(kind)
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}
