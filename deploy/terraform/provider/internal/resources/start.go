package resources

import (
	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const (
	startAttribute    = "start"
	positionAttribute = "position"
)

// start is where a subscription begins: in the API a word or an object of one member, here an
// object that has the word as a member too.
func start() *shape.Shape {
	one, once := 1, shape.Option{Replace: true, Absent: true}
	node := &contract.Node{
		Type: contract.Types{Name: "object"}, Properties: map[string]*contract.Node{},
		MinMembers: &one, MaxMembers: &one,
	}
	options := shape.Options{"": {
		Chosen: true,
		Instead: "Where it begins, for good: just one of its members. Left out, a new one begins with " +
			"what is published from then on.",
	}}
	for _, form := range contract.Schema("SubscriptionCreate").Properties[startAttribute].Resolved().AnyOf {
		form = form.Resolved()
		if len(form.OneOf) == 0 {
			node.Properties[positionAttribute] = form
			word := once
			word.Instead = "`latest`: with what is published from then on; `earliest`: at the first message kept."
			options[positionAttribute] = word
		}
		for _, place := range form.OneOf {
			for name, member := range place.Properties {
				node.Properties[name] = member
				options[name] = once
			}
		}
	}
	return shape.Member(node, options)
}

// sendStart writes it as the API has it. What is there already has begun.
func sendStart(body map[string]any, update bool) {
	given, _ := body[startAttribute].(map[string]any)
	if update || len(given) == 0 {
		delete(body, startAttribute)
	} else if position, ok := given[positionAttribute]; ok {
		body[startAttribute] = position
	}
}

// receiveStart reads it from the API's words.
func receiveStart(answer map[string]any) {
	if position, ok := answer[startAttribute].(string); ok {
		answer[startAttribute] = map[string]any{positionAttribute: position}
	}
}
