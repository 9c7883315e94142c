package story

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sandboxes are the environments in which the daemon can be started: root; pod, an
// unprivileged user without capabilities in its own network namespace; userns, a user
// namespace of its own; deaf, root without netlink; blind, an unprivileged user without
// inotify.
var Sandboxes = []string{"root", "pod", "userns", "deaf", "blind"}

// Sandbox splits the arguments of start, [as SANDBOX] [FLAG …]. The default sandbox is root.
func Sandbox(args []string) (sandbox string, flags []string) {
	if len(args) >= 2 && args[0] == "as" {
		return args[1], args[2:]
	}
	return "root", args
}

func checkStart(args []string) error {
	sandbox, flags := Sandbox(args)
	if !slices.Contains(Sandboxes, sandbox) {
		return fmt.Errorf("sandbox: found %q, want one of %s", sandbox, strings.Join(Sandboxes, ", "))
	}
	for _, flag := range flags {
		if !strings.HasPrefix(flag, "--") || !strings.Contains(flag, "=") {
			return fmt.Errorf("found %q, want --FLAG=VALUE", flag)
		}
	}
	return nil
}

func oneOf(words ...string) func([]string) error {
	return func(args []string) error {
		if !slices.Contains(words, args[0]) {
			return fmt.Errorf("found %q, want one of %s", args[0], strings.Join(words, ", "))
		}
		return nil
	}
}

// Count returns the first argument of cycle, measure, costs, random and locking.
func (s Step) Count() int {
	n, _ := strconv.Atoi(s.Args[0]) // Parse has checked it
	return n
}

func checkCount(args []string) error {
	if n, err := strconv.Atoi(args[0]); err != nil || n < 1 || n > 1000 {
		return fmt.Errorf("found %q, want a number from 1 to 1000", args[0])
	}
	return nil
}

// checkName checks the names of recordings.
func checkName(args []string) error {
	for _, name := range args {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("found %q, want lower-case letters, digits and -", name)
		}
	}
	return nil
}

func checkDuration(args []string) error {
	if d, err := time.ParseDuration(args[0]); err != nil || d <= 0 || d > time.Minute {
		return fmt.Errorf("found %q, want a duration of up to a minute", args[0])
	}
	return nil
}

// Port returns the last argument of program, release-port and assign-port: the hardware number
// of a port. In program it is optional and defaults to 0.
func (s Step) Port() int {
	if s.Verb == "program" && len(s.Args) < 3 {
		return 0
	}
	n, _ := strconv.Atoi(s.Args[len(s.Args)-1]) // Parse has checked it
	return n
}

func checkPort(args []string) error {
	if n, err := strconv.Atoi(args[len(args)-1]); err != nil || n < 0 || n > 3 {
		return fmt.Errorf("found %q, want the number of a port, 0 to 3", args[len(args)-1])
	}
	return nil
}

func checkProgram(args []string) error {
	if raw, err := hex.DecodeString(args[1]); err != nil || len(raw) != 16 {
		return fmt.Errorf("found %q, want the 32 hexadecimal digits of an AFU", args[1])
	}
	if len(args) == 3 {
		return checkPort(args)
	}
	return nil
}

// Bitstream is the file of the verb bitstream: a GBS whose raw bitstream programs an AFU into
// the emulated card.
type Bitstream struct {
	File, AFU, Interface string
	Cut                  int // number of bytes to write; 0 stands for all
}

// Bitstream returns the bitstream for the arguments FILE AFU [INTERFACE] [cut=BYTES]. The
// default interface is that of the model a10.
func (s Step) Bitstream() Bitstream {
	b, _ := parseBitstream(s.Args) // Parse has checked it
	return b
}

func parseBitstream(args []string) (Bitstream, error) {
	b := Bitstream{File: args[0], AFU: args[1], Interface: "69528db6eb31577a8c3668f9faa081f6"}
	for _, word := range args[2:] {
		if value, ok := strings.CutPrefix(word, "cut="); ok {
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return b, fmt.Errorf("found %q, want a number of bytes above 0", word)
			}
			b.Cut = n
			continue
		}
		b.Interface = word
	}
	for _, id := range []string{b.AFU, b.Interface} {
		if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
			return b, fmt.Errorf("found %q, want 32 hexadecimal digits", id)
		}
	}
	if b.File != filepath.Base(b.File) {
		return b, fmt.Errorf("found %q, want a name without a directory", b.File)
	}
	return b, nil
}

func checkBitstream(args []string) error {
	_, err := parseBitstream(args)
	return err
}

// checkContainer checks the arguments of container: DEVICE[,DEVICE …] [NAME=VALUE …].
func checkContainer(args []string) error {
	for _, word := range args[1:] {
		if name, _, ok := strings.Cut(word, "="); !ok || name == "" {
			return fmt.Errorf("found %q, want NAME=VALUE of an environment variable", word)
		}
	}
	return nil
}

// checkClaim checks a request to ../../../dra/claims/kernelrig.
func checkClaim(args []string) error { return oneOf("prepare", "unprepare", "taint")(args) }

func checkBegin(args []string) error {
	switch args[1] {
	case "tool":
		return nil
	case "container":
		return checkContainer(args[2:])
	}
	return fmt.Errorf("found %q, want tool or container", args[1])
}

func checkOpen(args []string) error {
	if len(args) == 2 && args[1] != "own" {
		return fmt.Errorf("found %q, want own", args[1])
	}
	return nil
}

func checkUnbind(args []string) error {
	if len(args) == 2 && args[1] != "held" {
		return fmt.Errorf("found %q, want held", args[1])
	}
	return nil
}

func checkVFs(args []string) error {
	if n, err := strconv.Atoi(args[1]); err != nil || n < 0 || n > 4 {
		return fmt.Errorf("found %q, want a number of virtual functions, 0 to 4", args[1])
	}
	return checkUnbind(args[1:])
}

func checkRule(args []string) error {
	for _, word := range args[1:] {
		if key, value, _ := strings.Cut(word, "="); key == "" || value == "" {
			return fmt.Errorf("found %q, want KEY=VALUE", word)
		}
	}
	return nil
}

func checkInject(args []string) error { return oneOf("correctable", "nonfatal", "fatal")(args[1:]) }

func checkUse(args []string) error {
	if len(args) == 2 && args[1] != "cdev" {
		return fmt.Errorf("found %q, want cdev", args[1])
	}
	return nil
}

func checkKill(args []string) error {
	if len(args) == 2 && args[1] != "hook" {
		return fmt.Errorf("found %q, want hook", args[1])
	}
	return nil
}

func checkEnded(args []string) error { return oneOf("ok", "failed", "killed")(args[1:]) }

// Fields splits the arguments of log and nolog into the event and the expected values of
// fields. Lists and numbers are written as in the log's JSON, without brackets and quotes.
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
			return fmt.Errorf("found %q, want FIELD=VALUE", word)
		}
	}
	return nil
}
