package shape

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/defaults"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/numberdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/numberplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Attributes are those of a resource.
func (s *Shape) Attributes() map[string]schema.Attribute {
	attributes := map[string]schema.Attribute{}
	for name, member := range s.Members {
		attributes[name] = member.attribute()
	}
	return attributes
}

// flags say who gives the value.
func (s *Shape) flags() (required, optional, computed bool) {
	switch {
	case s.Required:
		return true, false, false
	case !s.settable():
		return false, false, true
	}
	return false, true, s.HasDefault || s.serverChooses()
}

// serverChooses: it may be left out, is not null then, and nothing says what it is instead.
func (s *Shape) serverChooses() bool {
	if s.Chosen {
		return true
	}
	return s.Sent && s.Answered && !s.HasDefault && !s.WriteOnly && !s.Absent &&
		!s.Limits.Type.Nullable && s.Limits.Default == nil
}

// stays: an update does not change it unless the configuration does.
func (s *Shape) stays() bool {
	return s.Stable || s.settable() && s.serverChooses()
}

func (s *Shape) attribute() schema.Attribute {
	switch s.Kind {
	case Bool:
		return s.boolAttribute()
	case Integer:
		return s.integerAttribute()
	case Number:
		return s.numberAttribute()
	case List:
		return s.listAttribute()
	case Set:
		return s.setAttribute()
	case Map:
		return s.mapAttribute()
	case Object:
		return s.objectAttribute()
	}
	return s.textAttribute()
}

func (s *Shape) textAttribute() schema.Attribute {
	made := schema.StringAttribute{Description: s.Text, Sensitive: s.Sensitive, WriteOnly: s.WriteOnly}
	made.Required, made.Optional, made.Computed = s.flags()
	if s.Limits != nil && !s.Plain {
		made.Validators = []validator.String{limits{s}}
	}
	if s.Kind == JSON || s.Time || s.Plain {
		made.PlanModifiers = append(made.PlanModifiers, equivalent{s})
	}
	if s.Stable {
		made.PlanModifiers = append(made.PlanModifiers, stringplanmodifier.UseStateForUnknown())
	}
	made.PlanModifiers = append(made.PlanModifiers, modifiers(
		s, stringplanmodifier.UseNonNullStateForUnknown, stringplanmodifier.RequiresReplace)...)
	if s.HasDefault && !s.Required {
		made.Default = stringdefault.StaticString(s.defaultValue().(types.String).ValueString())
	}
	return made
}

func (s *Shape) boolAttribute() schema.Attribute {
	made := schema.BoolAttribute{Description: s.Text, Sensitive: s.Sensitive, WriteOnly: s.WriteOnly}
	made.Required, made.Optional, made.Computed = s.flags()
	made.PlanModifiers = modifiers(s, boolplanmodifier.UseNonNullStateForUnknown, boolplanmodifier.RequiresReplace)
	if s.HasDefault && !s.Required {
		made.Default = booldefault.StaticBool(s.defaultValue().(types.Bool).ValueBool())
	}
	return made
}

func (s *Shape) integerAttribute() schema.Attribute {
	made := schema.Int64Attribute{Description: s.Text, Sensitive: s.Sensitive, WriteOnly: s.WriteOnly}
	made.Required, made.Optional, made.Computed = s.flags()
	if s.Limits != nil {
		made.Validators = []validator.Int64{limits{s}}
	}
	made.PlanModifiers = modifiers(s, int64planmodifier.UseNonNullStateForUnknown, int64planmodifier.RequiresReplace)
	if s.HasDefault && !s.Required {
		made.Default = int64default.StaticInt64(s.defaultValue().(types.Int64).ValueInt64())
	}
	return made
}

func (s *Shape) numberAttribute() schema.Attribute {
	made := schema.NumberAttribute{Description: s.Text, Sensitive: s.Sensitive, WriteOnly: s.WriteOnly}
	made.Required, made.Optional, made.Computed = s.flags()
	if s.Limits != nil {
		made.Validators = []validator.Number{limits{s}}
	}
	made.PlanModifiers = modifiers(s, numberplanmodifier.UseNonNullStateForUnknown, numberplanmodifier.RequiresReplace)
	if s.HasDefault && !s.Required {
		made.Default = numberdefault.StaticBigFloat(s.defaultValue().(types.Number).ValueBigFloat())
	}
	return made
}

func (s *Shape) listAttribute() schema.Attribute {
	required, optional, computed := s.flags()
	list := modifiers(s, listplanmodifier.UseNonNullStateForUnknown, listplanmodifier.RequiresReplace)
	var rules []validator.List
	if s.Limits != nil {
		rules = append(rules, limits{s})
	}
	if s.Element.Kind == Object {
		return schema.ListNestedAttribute{
			Description: s.Text, Sensitive: s.Sensitive, WriteOnly: s.WriteOnly,
			Required: required, Optional: optional, Computed: computed,
			NestedObject: schema.NestedAttributeObject{Attributes: s.Element.Attributes()},
			Validators:   rules, PlanModifiers: list, Default: s.listDefault(),
		}
	}
	return schema.ListAttribute{
		Description: s.Text, Sensitive: s.Sensitive, WriteOnly: s.WriteOnly,
		Required: required, Optional: optional, Computed: computed,
		ElementType: s.Element.AttrType(),
		Validators:  rules, PlanModifiers: list, Default: s.listDefault(),
	}
}

func (s *Shape) listDefault() defaults.List {
	if !s.HasDefault || s.Required {
		return nil
	}
	return listdefault.StaticValue(s.defaultValue().(types.List))
}

func (s *Shape) setAttribute() schema.Attribute {
	made := schema.SetAttribute{
		Description: s.Text, Sensitive: s.Sensitive,
		ElementType:   s.Element.AttrType(),
		PlanModifiers: modifiers(s, setplanmodifier.UseNonNullStateForUnknown, setplanmodifier.RequiresReplace),
	}
	made.Required, made.Optional, made.Computed = s.flags()
	if s.Limits != nil {
		made.Validators = []validator.Set{limits{s}}
	}
	if s.HasDefault && !s.Required {
		made.Default = setdefault.StaticValue(s.defaultValue().(types.Set))
	}
	return made
}

func (s *Shape) mapAttribute() schema.Attribute {
	required, optional, computed := s.flags()
	table := modifiers(s, mapplanmodifier.UseNonNullStateForUnknown, mapplanmodifier.RequiresReplace)
	var rules []validator.Map
	if s.Limits != nil {
		rules = append(rules, limits{s})
	}
	made := schema.MapAttribute{
		Description: s.Text, Sensitive: s.Sensitive, WriteOnly: s.WriteOnly,
		Required: required, Optional: optional, Computed: computed,
		ElementType: s.Element.AttrType(), Validators: rules, PlanModifiers: table,
	}
	if s.HasDefault && !s.Required {
		made.Default = mapdefault.StaticValue(s.defaultValue().(types.Map))
	}
	return made
}

func (s *Shape) objectAttribute() schema.Attribute {
	made := schema.SingleNestedAttribute{
		Description: s.Text, Sensitive: s.Sensitive, WriteOnly: s.WriteOnly,
		Attributes:    s.Attributes(),
		PlanModifiers: modifiers(s, objectplanmodifier.UseNonNullStateForUnknown, objectplanmodifier.RequiresReplace),
	}
	made.Required, made.Optional, made.Computed = s.flags()
	if s.Limits != nil {
		made.Validators = []validator.Object{limits{s}}
	}
	if s.HasDefault && !s.Required {
		made.Default = objectdefault.StaticValue(s.defaultValue().(types.Object))
	}
	return made
}

// modifiers are the same two for every kind. What was null may become something as soon as there is
// something to choose for, so null does not stay.
func modifiers[M any](s *Shape, stays, replaces func() M) []M {
	var made []M
	if s.stays() {
		made = append(made, stays())
	}
	if s.Replace {
		made = append(made, replaces())
	}
	return made
}
