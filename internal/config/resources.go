package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"b-com.com/accelerator-device-plugin/server/offer"
)

// resourcesKey is the list of what the operator names otherwise than the mode
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
		value := resolve(item)
		if value.Kind != yaml.MappingNode {
			r.refuse(item, "%s: want a rule with name and match, found %s", key.Value, found(value))
			continue
		}
		before := len(r.errs)
		rule := r.rule(item, value, families)
		if len(r.errs) > before {
			continue
		}
		if line, twice := first[rule.Match]; twice {
			r.refuse(item, "%s: this rule never matches: the one on line %d takes all that it would", key.Value, line)
			continue
		}
		first[rule.Match] = item.Line
		rules = append(rules, rule)
	}
	return rules
}

func (r *reading) rule(at, mapping *yaml.Node, families []string) (rule offer.Rule) {
	const where = resourcesKey + "."
	given := make(map[string]bool)
	r.each(where, mapping, func(key, value *yaml.Node) {
		given[key.Value] = true
		switch key.Value {
		case "name":
			rule.Resource = r.word(where, key, value, offer.ValidateName)
		case "match":
			rule.Match = r.match(key, value, families)
		default:
			r.refuse(key, "%s: unknown key %q; allowed: match, name", resourcesKey, key.Value)
		}
	})
	for _, key := range []string{"name", "match"} {
		if !given[key] {
			r.refuse(at, "%s: a rule lacks %s", resourcesKey, key)
		}
	}
	return rule
}

// word reads one value that check takes; "" where it does not.
func (r *reading) word(where string, key, value *yaml.Node, check func(string) error) string {
	err := errors.New("want one value")
	if isValue(value) {
		err = check(value.Value)
	}
	if err != nil {
		r.refuse(key, "%s%s: %w, found %s", where, key.Value, err, found(value))
		return ""
	}
	return value.Value
}

// match reads what a device must be. Its keys are those of `devices -o json`,
// where that has them.
func (r *reading) match(key, mapping *yaml.Node, families []string) (m offer.Match) {
	const where = resourcesKey + ".match."
	if mapping.Kind != yaml.MappingNode || len(mapping.Content) == 0 {
		r.refuse(key, "%smatch: want a mapping with one of %s or more, found %s", resourcesKey+".", strings.Join(matchKeys, ", "), found(mapping))
		return m
	}
	r.each(where, mapping, func(key, value *yaml.Node) {
		switch key.Value {
		case "pciVendor":
			m.PCIVendor = strings.ToLower(r.word(where, key, value, fourDigits))
		case "pciDevice":
			m.PCIDevice = strings.ToLower(r.word(where, key, value, fourDigits))
		case "pciAddress":
			m.PCIAddress = r.card(where, key, value)
		case "afuId":
			m.AFUID = strings.ToLower(strings.ReplaceAll(r.word(where, key, value, guid), "-", ""))
		case "interfaceId":
			m.InterfaceID = strings.ToLower(strings.ReplaceAll(r.word(where, key, value, guid), "-", ""))
		case "family":
			m.Family = r.word(where, key, value, func(s string) error {
				if !slices.Contains(families, s) {
					return fmt.Errorf("want one of %s", strings.Join(families, ", "))
				}
				return nil
			})
		default:
			r.refuse(key, "%s: unknown key %q; allowed: %s", strings.TrimSuffix(where, "."), key.Value, strings.Join(matchKeys, ", "))
		}
	})
	return m
}

var matchKeys = []string{"afuId", "family", "interfaceId", "pciAddress", "pciDevice", "pciVendor"}

// card reads the address of a card, in the form of device ids.
func (r *reading) card(where string, key, value *yaml.Node) (address string) {
	r.word(where, key, value, func(s string) error {
		parsed, err := parseExcluded(s)
		if err != nil || strings.Contains(parsed, "-p") {
			return errors.New("want the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0")
		}
		address = parsed
		return nil
	})
	return address
}

var (
	fourDigitForm = regexp.MustCompile(`^[0-9A-Fa-f]{4}$`)
	guidForm      = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-?)[0-9A-Fa-f]{4}(-?)[0-9A-Fa-f]{4}(-?)[0-9A-Fa-f]{4}(-?)[0-9A-Fa-f]{12}$`)
)

func fourDigits(s string) error {
	if !fourDigitForm.MatchString(s) {
		return errors.New(`want four hexadecimal digits in quotes, such as "09c4"`)
	}
	return nil
}

// guid takes 32 digits, or the same with all four dashes.
func guid(s string) error {
	m := guidForm.FindStringSubmatch(s)
	if m == nil || slices.ContainsFunc(m[2:], func(dash string) bool { return dash != m[1] }) {
		return errors.New("want 32 hexadecimal digits, such as d8424dc4a4a3c413f89e433683f9040b")
	}
	return nil
}
