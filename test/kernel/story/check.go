package story

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sandboxes are the ways in which the daemon can be started: as root; as a pod
// (an unprivileged user without capabilities in its own network namespace); in a
// user namespace of its own; where the netlink family is refused; and where inotify
// is refused, unprivileged.
var Sandboxes = []string{"root", "pod", "userns", "deaf", "blind"}

// Sandbox splits the arguments of start: "as" and a sandbox may come first.
func Sandbox(args []string) (sandbox string, flags []string) {
	if len(args) >= 2 && args[0] == "as" {
		return args[1], args[2:]
	}
	return "root", args
}

func checkStart(args []string) error {
	sandbox, flags := Sandbox(args)
	if !slices.Contains(Sandboxes, sandbox) {
		return fmt.Errorf("as %q, want one of %s", sandbox, strings.Join(Sandboxes, ", "))
	}
	for _, flag := range flags {
		if !strings.HasPrefix(flag, "--") || !strings.Contains(flag, "=") {
			return fmt.Errorf("%q, want --FLAG=VALUE", flag)
		}
	}
	return nil
}

func oneOf(words ...string) func([]string) error {
	return func(args []string) error {
		if !slices.Contains(words, args[0]) {
			return fmt.Errorf("%q, want one of %s", args[0], strings.Join(words, ", "))
		}
		return nil
	}
}

// Count is the number that cycle, measure, costs and random begin with.
func (s Step) Count() int {
	n, _ := strconv.Atoi(s.Args[0]) // Parse has checked it
	return n
}

func checkCount(args []string) error {
	if n, err := strconv.Atoi(args[0]); err != nil || n < 1 || n > 1000 {
		return fmt.Errorf("%q, want a number from 1 to 1000", args[0])
	}
	return nil
}

// checkName checks what a recording is called.
func checkName(args []string) error {
	for _, name := range args {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("%q, want lower-case letters, digits and -", name)
		}
	}
	return nil
}

func checkDuration(args []string) error {
	if d, err := time.ParseDuration(args[0]); err != nil || d <= 0 || d > time.Minute {
		return fmt.Errorf("%q, want a duration of up to a minute", args[0])
	}
	return nil
}

// Port is the hardware number of the port that program, release-port and assign-port
// end with; of program, 0 where it is left out.
func (s Step) Port() int {
	if s.Verb == "program" && len(s.Args) < 3 {
		return 0
	}
	n, _ := strconv.Atoi(s.Args[len(s.Args)-1]) // Parse has checked it
	return n
}

func checkPort(args []string) error {
	if n, err := strconv.Atoi(args[len(args)-1]); err != nil || n < 0 || n > 3 {
		return fmt.Errorf("%q, want the number of a port, 0 to 3", args[len(args)-1])
	}
	return nil
}

func checkProgram(args []string) error {
	if raw, err := hex.DecodeString(args[1]); err != nil || len(raw) != 16 {
		return fmt.Errorf("%q, want the 32 hexadecimal digits of an AFU", args[1])
	}
	if len(args) == 3 {
		return checkPort(args)
	}
	return nil
}

// Fields splits the arguments of log and nolog: the event, and what its fields
// must hold. Lists and numbers are compared as the log's JSON shows them, without
// brackets and quotes.
func Fields(args []string) (event string, fields map[string]string) {
	fields = map[string]string{}
	for _, word := range args[1:] {
		key, value, _ := strings.Cut(word, "=")
		fields[key] = value
	}
	return args[0], fields
}

func checkFields(args []string) error {
	for _, word := range args[1:] {
		if key, _, ok := strings.Cut(word, "="); !ok || key == "" {
			return fmt.Errorf("%q, want FIELD=VALUE", word)
		}
	}
	return nil
}
