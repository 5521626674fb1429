package resources

import "github.com/packetboat/terraform-provider-packetboat/internal/shape"

const forceAttribute = "force_destroy"

// forceDestroy is the attribute of what loses messages, or all that it has, when it is destroyed.
func forceDestroy(text string) *shape.Shape { return shape.OfOwn(shape.Bool, text, false) }
