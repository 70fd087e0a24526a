// Package flags reads command lines as the Pathways binaries do: --name=value
// or --name value, the last of two wins, and an unknown name is an error that
// ends the process at once.
package flags

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Set holds the values of one command line by flag name.
type Set struct {
	known    map[string]bool
	prefixes []string
	values   map[string]string
	errs     []error
}

// Known starts a set that takes these names. A name that ends in an asterisk
// stands for all names that begin with what is before it.
func Known(names ...string) *Set {
	s := &Set{known: map[string]bool{}, values: map[string]string{}}
	for _, name := range names {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			s.prefixes = append(s.prefixes, prefix)
			continue
		}
		s.known[name] = true
	}
	return s
}

// Parse reads the command line.
func (s *Set) Parse(args []string) error {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") {
			return fmt.Errorf("unexpected argument %q", arg)
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !s.knows(name) {
			return fmt.Errorf("unknown command line flag '%s'", name)
		}
		if !hasValue {
			value = "true"
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
				value = args[i]
			}
		}
		if strings.Contains(value, "$(") {
			return fmt.Errorf("flag --%s has a variable that nobody replaced: %q", name, value)
		}
		s.values[name] = value
	}
	return nil
}

func (s *Set) knows(name string) bool {
	if s.known[name] {
		return true
	}
	for _, prefix := range s.prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// String returns a flag's value, or the given one where it was not set.
func (s *Set) String(name, otherwise string) string {
	if v, ok := s.values[name]; ok {
		return v
	}
	return otherwise
}

// Required returns a flag's value; without one, Err reports it.
func (s *Set) Required(name string) string {
	v := s.values[name]
	if v == "" {
		s.errs = append(s.errs, fmt.Errorf("flag --%s is required", name))
	}
	return v
}

// Int returns a flag's value as a number; Err reports one that is none.
func (s *Set) Int(name string, otherwise int) int {
	v, ok := s.values[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		s.errs = append(s.errs, fmt.Errorf("flag --%s: %q is not a number of 0 or more", name, v))
	}
	return n
}

// Bool returns a flag's value as true or false; Err reports any other.
func (s *Set) Bool(name string) bool {
	v, ok := s.values[name]
	if !ok {
		return false
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("flag --%s: %q is neither true nor false", name, v))
	}
	return b
}

// Err joins what was wrong with the values read so far.
func (s *Set) Err() error { return errors.Join(s.errs...) }

// Env reads environment variables in the same way.
type Env struct {
	lookup func(string) (string, bool)
	errs   []error
}

// NewEnv reads from lookup, usually os.LookupEnv.
func NewEnv(lookup func(string) (string, bool)) *Env { return &Env{lookup: lookup} }

// Get returns a variable, or the empty string.
func (e *Env) Get(name string) string {
	v, _ := e.lookup(name)
	return v
}

// Required returns a variable; Err reports one that is missing, empty, or
// holds a variable that nobody replaced.
func (e *Env) Required(name string) string {
	v := e.Get(name)
	switch {
	case v == "":
		e.errs = append(e.errs, fmt.Errorf("environment variable %s is required", name))
	case strings.Contains(v, "$("):
		e.errs = append(e.errs, fmt.Errorf("environment variable %s has a variable that nobody replaced: %q", name, v))
	}
	return v
}

// Is reports, by Err, a variable of another value.
func (e *Env) Is(name, want string) {
	if got := e.Required(name); got != "" && got != want {
		e.errs = append(e.errs, fmt.Errorf("environment variable %s is %q, not %q", name, got, want))
	}
}

// Index returns a variable as a number of 0 or more.
func (e *Env) Index(name string) int {
	v := e.Required(name)
	n, err := strconv.Atoi(v)
	if v != "" && (err != nil || n < 0) {
		e.errs = append(e.errs, fmt.Errorf("environment variable %s: %q is not a number of 0 or more", name, v))
	}
	return n
}

// Err joins what was wrong with the variables read so far.
func (e *Env) Err() error { return errors.Join(e.errs...) }
