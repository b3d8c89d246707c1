// Linearizable checks histories of maps with Porcupine, key by key.
//
//	linearizable [-timeout 60s] [-picture FILE] HISTORY...
//
// A history has one operation per line, as format_history() in ../checker.cpp writes it:
//
//	client begin end kind key argument expected done result
//
// end is 0 where no answer came: the operation may have taken effect, or may still, or never. Each history's verdict is
// a line on standard output: "FILE: linearizable", "FILE: not linearizable", or "FILE: unknown". Exit code 0: all are
// linearizable; 1: one is not; 2: at least one took longer than the limit, the others are; 3: a history cannot be read.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const absent = math.MaxUint64

type request struct {
	kind                    string
	key, argument, expected uint64
}

type answer struct {
	given  bool // else nobody knows
	done   bool
	result uint64
}

// What one key has.
type cell struct {
	present bool
	value   uint64
}

func step(now cell, asked request, told answer) (bool, cell) {
	valueOr := func(otherwise uint64) uint64 {
		if now.present {
			return now.value
		}
		return otherwise
	}
	is := func(right bool, next cell) (bool, cell) { return right || !told.given, next }
	switch asked.kind {
	case "get":
		return is(told.done == now.present && (!now.present || told.result == now.value), now)
	case "put":
		return true, cell{true, asked.argument}
	case "erase":
		return is(told.done == now.present, cell{})
	case "insert":
		next := now
		if !now.present {
			next = cell{true, asked.argument}
		}
		return is(told.done == !now.present, next)
	case "compare_exchange":
		equal, next := now.present && now.value == asked.expected, now
		if equal {
			next.value = asked.argument
		}
		return is(told.done == equal && told.result == valueOr(absent), next)
	default: // fetch_add
		return is(told.result == valueOr(0), cell{true, valueOr(0) + asked.argument})
	}
}

func describe(asked request, told answer) string {
	text := fmt.Sprintf("%s %d", asked.kind, asked.key)
	switch asked.kind {
	case "put", "insert", "fetch_add":
		text += fmt.Sprintf(", %d", asked.argument)
	case "compare_exchange":
		text += fmt.Sprintf(", %d for %d", asked.argument, asked.expected)
	}
	if !told.given {
		return text + ": no answer"
	}
	return text + fmt.Sprintf(": %t %d", told.done, told.result)
}

var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		places := map[uint64]int{}
		var parts [][]porcupine.Operation
		for _, operation := range history {
			key := operation.Input.(request).key
			place, known := places[key]
			if !known {
				place = len(parts)
				places[key] = place
				parts = append(parts, nil)
			}
			parts[place] = append(parts[place], operation)
		}
		return parts
	},
	Init: func() interface{} { return cell{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		right, next := step(state.(cell), input.(request), output.(answer))
		return right, next
	},
	DescribeOperation: func(input, output interface{}) string { return describe(input.(request), output.(answer)) },
}

var kinds = map[string]bool{"get": true, "put": true, "erase": true, "insert": true, "compare_exchange": true, "fetch_add": true}

func read(name string) ([]porcupine.Operation, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var history []porcupine.Operation
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		var client, done int
		var begin, end int64
		var asked request
		var told answer
		count, err := fmt.Sscan(lines.Text(), &client, &begin, &end, &asked.kind, &asked.key, &asked.argument,
			&asked.expected, &done, &told.result)
		if err != nil || count != 9 || !kinds[asked.kind] {
			return nil, fmt.Errorf("%s:%d: not an operation: %q", name, number, lines.Text())
		}
		told.given, told.done = end != 0, done != 0
		if !told.given {
			end = math.MaxInt64
		}
		if begin > end {
			return nil, fmt.Errorf("%s:%d: ends before it begins", name, number)
		}
		history = append(history, porcupine.Operation{ClientId: client, Input: asked, Call: begin, Output: told, Return: end})
	}
	return history, lines.Err()
}

func main() {
	limit := flag.Duration("timeout", time.Minute, "for each history")
	picture := flag.String("picture", "", "HTML `file` that shows the first history that is not linearizable")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "linearizable: which histories?")
		os.Exit(3)
	}
	code, drawn := 0, *picture == ""
	for _, name := range flag.Args() {
		history, err := read(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "linearizable:", err)
			os.Exit(3)
		}
		verdict, info := porcupine.CheckOperationsVerbose(model, history, *limit)
		switch verdict {
		case porcupine.Ok:
			fmt.Println(name + ": linearizable")
		case porcupine.Unknown:
			fmt.Println(name + ": unknown")
			if code == 0 {
				code = 2
			}
		default:
			fmt.Println(name + ": not linearizable")
			code = 1
			if !drawn {
				drawn = true
				if err := porcupine.VisualizePath(model, info, *picture); err != nil {
					fmt.Fprintln(os.Stderr, "linearizable:", err)
					os.Exit(3)
				}
			}
		}
	}
	os.Exit(code)
}
