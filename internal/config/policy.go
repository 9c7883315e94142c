package config

import (
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"b-com.com/accelerator-device-plugin/internal/sysfs"
)

// Keys that only the file has, as [resourcesKey] is: none is one value, and all may
// change while the daemon runs ([Loader.Again]).
const (
	excludeKey = "exclude"
	healthKey  = "health"
)

// How bad a reason makes a device, as [Config.Severity] has it.
const (
	Fatal    = "fatal"    // offered to nobody
	Degraded = "degraded" // offered, and shown
	Ignored  = "ignored"  // as if it had not been read
)

var severities = []string{Fatal, Degraded, Ignored}

// exclude reads a list of cards and ports, nil where it is empty. Nothing at all
// is an empty one here and in what follows: it is what remains when the last entry
// is taken out.
func (r *reading) exclude(key, list *yaml.Node) map[string]bool {
	if isNull(list) {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		r.refuse(key, "%s: want a list of PCI addresses, found %s", key.Value, found(list))
		return nil
	}
	first := make(map[string]int) // line by address
	var excluded map[string]bool
	for _, item := range list.Content {
		value := resolve(item)
		if !isValue(value) {
			r.refuse(item, "%s: %w, found %s", key.Value, errAddress, found(value))
			continue
		}
		address, err := parseExcluded(value.Value)
		if err != nil {
			r.refuse(item, "%s: %q: %w", key.Value, value.Value, err)
			continue
		}
		if line, twice := first[address]; twice {
			r.refuse(item, "%s: %q: given twice, first on line %d", key.Value, value.Value, line)
			continue
		}
		first[address] = item.Line
		if excluded == nil {
			excluded = make(map[string]bool)
		}
		excluded[address] = true
	}
	return excluded
}

var errAddress = errors.New("want the PCI address of a card, such as 3b:00.0 or 0001:3b:00.0, or of one port of it, 3b:00.0-p0 to 3b:00.0-p3")

// parseExcluded parses [DDDD:]BB:DD.F[-pN], in hexadecimal of either case, with N
// from 0 to 3, the hardware ports that a card can have. It returns the form of
// device ids: lower case, and domain 0 left out.
func parseExcluded(s string) (string, error) {
	card, port, hasPort := strings.Cut(strings.ToLower(s), "-")
	if strings.Count(card, ":") == 1 {
		card = "0000:" + card
	}
	address, err := sysfs.ParsePCIAddress(card)
	if err != nil {
		return "", errAddress // this error speaks of one form only
	}
	address = strings.TrimPrefix(address, "0000:")
	if !hasPort {
		return address, nil
	}
	if len(port) != 2 || port[0] != 'p' || port[1] < '0' || port[1] > '3' {
		return "", errAddress
	}
	return address + "-" + port, nil
}

// health reads the mapping of that key, of which severity is all there is so far.
func (r *reading) health(key, mapping *yaml.Node, known reasons) (severity map[string]string) {
	if isNull(mapping) {
		return nil
	}
	if mapping.Kind != yaml.MappingNode {
		r.refuse(key, "%s: want a mapping with the key severity, found %s", key.Value, found(mapping))
		return nil
	}
	r.each(healthKey+".", mapping, func(key, value *yaml.Node) {
		if key.Value != "severity" {
			r.refuse(key, "%s: unknown key %q; allowed: severity", healthKey, key.Value)
			return
		}
		severity = r.severity(key, value, known)
	})
	return severity
}

// severity reads a mapping from reasons to severities, nil where it is empty.
func (r *reading) severity(key, mapping *yaml.Node, known reasons) map[string]string {
	const where = healthKey + ".severity"
	if isNull(mapping) {
		return nil
	}
	if mapping.Kind != yaml.MappingNode {
		r.refuse(key, "%s: want a mapping such as \"port-ap6: degraded\", found %s", where, found(mapping))
		return nil
	}
	var severity map[string]string
	r.each(where+".", mapping, func(key, value *yaml.Node) {
		if err := known.check(key.Value); err != nil {
			r.refuse(key, "%s: %w", where, err)
			return
		}
		if !isValue(value) || !slices.Contains(severities, value.Value) {
			r.refuse(key, "%s.%s: want one of %s, found %s", where, key.Value, strings.Join(severities, ", "), found(value))
			return
		}
		if severity == nil {
			severity = make(map[string]string)
		}
		severity[key.Value] = value.Value
	})
	return severity
}
