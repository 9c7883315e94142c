package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"b-com.com/accelerator-device-plugin/internal/terminal"
)

// State is a daemon's answer: the output of `devices -o state`. Its strings are safe to print on a terminal.
type State struct {
	Version string // the daemon's version
	API     string // devicePlugin or dra

	// Problems lists reasons why the answer is incomplete.
	Problems []string
	Devices  []map[string]any // rows as in `devices -o json`
	Cards    []map[string]any // the cards' history: [b-com.com/accelerator-device-plugin/daemon/ledger.History]
	Cordons  []map[string]any // cordons, including cordons of empty slots: [b-com.com/accelerator-device-plugin/daemon/cordon.Cordon]
	Faulty   []string         // IDs of the devices that need attention
}

// maxText is the maximum length of a string in an answer, in bytes. The longest strings are error messages.
const maxText = 1024

// Parse parses the output of `devices -o state`. It keeps unknown keys in devices and cards.
func Parse(text []byte) (State, error) {
	if len(strings.TrimSpace(string(text))) == 0 {
		return State{}, errors.New("its answer is empty")
	}
	var all map[string]any
	if err := utiljson.Unmarshal(text, &all); err != nil {
		return State{}, fmt.Errorf("its answer is not that of the plugin, or incomplete: %.200s", terminal.Escape(err.Error()))
	}
	all, _ = escaped(all).(map[string]any)
	s := State{Version: textOf(all["version"]), API: textOf(all["api"])}
	var err error
	if s.Version == "" {
		err = errors.New("version: found none, want that of the plugin")
	}
	if err == nil {
		s.Devices, err = objects(all, "devices", "id", "health")
	}
	if err == nil {
		s.Cards, err = objects(all, "cards", "card")
	}
	if err == nil {
		s.Cordons, err = objects(all, "cordons", "device")
	}
	if err != nil {
		return State{}, fmt.Errorf("its answer is not that of the plugin: %w", err)
	}
	verdict, _ := all["verdict"].(map[string]any)
	faulty, _ := verdict["faulty"].([]any)
	for _, id := range faulty {
		s.Faulty = append(s.Faulty, textOf(id))
	}
	if text := textOf(all["holdersError"]); text != "" {
		s.Problems = append(s.Problems, "the holders of devices are not known: "+text)
	}
	if text := textOf(all["stateDirError"]); text != "" {
		s.Problems = append(s.Problems, text)
	}
	if all["incomplete"] == true {
		s.Problems = append(s.Problems, "not all cards have been read yet")
	}
	return s, nil
}

// objects returns the objects in the list all[key]. Each of them must have a non-empty string for each key in texts.
func objects(all map[string]any, key string, texts ...string) ([]map[string]any, error) {
	list, ok := all[key].([]any)
	if !ok && all[key] != nil {
		return nil, fmt.Errorf("%s: found %T, want a list", key, all[key])
	}
	objects := make([]map[string]any, len(list))
	for i, v := range list {
		object, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d]: found %T, want an object", key, i, v)
		}
		if j := slices.IndexFunc(texts, func(text string) bool { return textOf(object[text]) == "" }); j >= 0 {
			return nil, fmt.Errorf("%s[%d].%s: found no text", key, i, texts[j])
		}
		objects[i] = object
	}
	return objects, nil
}

func textOf(v any) string {
	text, _ := v.(string)
	return text
}

// escaped applies [Printable] to all keys and strings in a JSON value.
func escaped(v any) any {
	switch v := v.(type) {
	case string:
		return Printable(v)
	case []any:
		for i := range v {
			v[i] = escaped(v[i])
		}
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, value := range v {
			all[Printable(key)] = escaped(value)
		}
		return all
	}
	return v
}

// Printable escapes anything in a string that could control a terminal, and cuts off the end of long strings.
func Printable(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return terminal.Escape(text)
}
