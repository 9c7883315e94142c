package config

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"b-com.com/accelerator-device-plugin/server/names"
	"b-com.com/accelerator-device-plugin/server/offer"
)

// resourcesKey is the list of what the administrator names otherwise than the mode
// does.
const resourcesKey = "resources"

// resources reads the rules of that list, in their order: the first one that
// matches a device names its resource.
func (r *reading) resources(key, list *yaml.Node, families []string) []offer.Rule {
	if isNull(list) {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		r.refuse(key, "%s: want a list of rules, each with name and match, found %s", key.Value, found(list))
		return nil
	}
	first := make(map[offer.Match]int) // line by match
	var rules []offer.Rule
	for _, item := range list.Content {
		before := len(r.errs)
		rule := r.rule(item, families)
		if len(r.errs) > before {
			continue
		}
		// One that takes more than a later one is no slip: the later one may be meant
		// for the day when the first is taken out. `devices -o wide` tells of it.
		if line, twice := first[rule.Match]; twice {
			r.refuse(item, "%s: this rule is never used: the one on line %d matches the same and comes first", resourcesKey, line)
			continue
		}
		first[rule.Match] = item.Line
		rules = append(rules, rule)
	}
	return rules
}

// rule reads one entry of the list, which is nothing of worth where it was refused.
func (r *reading) rule(item *yaml.Node, families []string) (rule offer.Rule) {
	const wanted = resourcesKey + ": want a rule with name and match, found "
	mapping := resolve(item)
	if mapping.Kind != yaml.MappingNode {
		r.refuse(item, wanted+"%s", found(mapping))
		return rule
	}
	given := make(map[string]bool)
	r.each(resourcesKey+".", mapping, func(key, value *yaml.Node) {
		given[key.Value] = true
		switch key.Value {
		case "name":
			rule.Resource = r.resource(key, value)
		case "match":
			rule.Match = r.match(key, value, families)
		default:
			r.refuse(key, "%s: unknown key %q; allowed: match, name", resourcesKey, key.Value)
		}
	})
	for _, key := range []string{"name", "match"} {
		if !given[key] {
			r.refuse(item, wanted+"one without %s", key)
		}
	}
	return rule
}

// resource reads the name of one.
func (r *reading) resource(key, value *yaml.Node) string {
	const where = resourcesKey + ".name"
	if !isValue(value) {
		r.refuse(key, "%s: want DOMAIN/NAME, such as example.com/nlb, found %s", where, found(value))
		return ""
	}
	if err := names.Validate(value.Value); err != nil {
		r.refuse(key, "%s: %w", where, err) // which says what was found
		return ""
	}
	return value.Value
}

// match reads what a device must be. Its keys are those of `devices -o json`,
// where that has them.
func (r *reading) match(key, mapping *yaml.Node, families []string) (m offer.Match) {
	const where = resourcesKey + ".match"
	if mapping.Kind != yaml.MappingNode {
		r.refuse(key, "%s: want a mapping with at least one of %s, found %s", where, strings.Join(matchKeys, ", "), found(mapping))
		return m
	}
	if len(mapping.Content) == 0 {
		r.refuse(key, "%s: want at least one of %s, found none", where, strings.Join(matchKeys, ", "))
		return m
	}
	r.each(where+".", mapping, func(key, value *yaml.Node) {
		switch key.Value {
		case "afuId":
			m.AFUID = r.formed(where, key, value, guid)
		case "family":
			m.Family = r.formed(where, key, value, word(families))
		case "interfaceId":
			m.InterfaceID = r.formed(where, key, value, guid)
		case "pciAddress":
			m.PCIAddress = r.formed(where, key, value, cardAddress)
		case "pciDevice":
			m.PCIDevice = r.formed(where, key, value, fourDigits)
		case "pciVendor":
			m.PCIVendor = r.formed(where, key, value, fourDigits)
		default:
			r.refuse(key, "%s: unknown key %q; allowed: %s", where, key.Value, strings.Join(matchKeys, ", "))
		}
	})
	return m
}

var matchKeys = []string{"afuId", "family", "interfaceId", "pciAddress", "pciDevice", "pciVendor"}

// formed reads one value of that form; "" where it is none.
func (r *reading) formed(where string, key, value *yaml.Node, f form) string {
	if isValue(value) {
		if normal, ok := f.parse(value.Value); ok {
			return normal
		}
	}
	r.refuse(key, "%s.%s: want %s, found %s", where, key.Value, f.want, found(value))
	return ""
}
