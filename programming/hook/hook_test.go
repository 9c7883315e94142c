package hook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"b-com.com/accelerator-device-plugin/programming/hook"
)

type object map[string]any

// configOf returns a configuration with the environment.
func configOf(env []string) (c hook.Config) {
	text, err := json.Marshal(object{"process": object{"env": env}})
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic(err)
	}
	return c
}

func configWith(t *testing.T, env []string) hook.Config {
	t.Helper()
	text, err := json.Marshal(object{"process": object{"env": env}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := hook.ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
