// Command flood loads an MQTT broker with the command line of mqtt-stresser, and can go on for as long as an experiment lasts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// exit codes of the whole lab.
const (
	exitGood    = 0
	exitFailed  = 1
	exitMisused = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(runCommand(ctx, os.Args[1:], newDialer, os.Stdout, os.Stderr))
}

// runCommand is the whole program but for its process: tests hand it a dialer of their own.
func runCommand(ctx context.Context, arguments []string, dialing func(options) dialer, out, errOut io.Writer) int {
	o, err := parseOptions(arguments, errOut)
	if errors.Is(err, flag.ErrHelp) {
		return exitGood
	}
	if err != nil {
		fmt.Fprintln(errOut, "flood:", err)
		return exitMisused
	}
	setLibraryLog(o.logLevel, errOut)
	report := &lineReporter{options: o, out: out, errors: errOut}
	f := newFlood(o, dialing(o), report)
	failure := f.run(ctx)
	interrupted := ctx.Err() != nil
	if failure != nil && !interrupted {
		fmt.Fprintln(errOut, "flood:", failure)
		if f.tally.attempted.Load() == 0 {
			fmt.Fprintln(errOut, "flood: start the broker, or name the right one with -broker; -repeat waits for it")
			return exitFailed
		}
	}
	report.summary(f, interrupted)
	return exitCode(f, failure, interrupted)
}

// exitCode is good for a flood that was stopped or repeats: losses are then a result, and stand in the summary.
func exitCode(f *flood, failure error, interrupted bool) int {
	if interrupted || f.options.repeat {
		return exitGood
	}
	if failure != nil || f.tally.errors.Load() > 0 {
		return exitFailed
	}
	return exitGood
}

// setLibraryLog shows the MQTT library's own messages when asked for.
func setLibraryLog(level int, out io.Writer) {
	if level == 1 || level == 3 {
		mqtt.ERROR = log.New(out, "mqtt error: ", log.Lmicroseconds)
		mqtt.CRITICAL = mqtt.ERROR
	}
	if level >= 2 {
		mqtt.DEBUG = log.New(out, "mqtt debug: ", log.Lmicroseconds)
		mqtt.WARN = mqtt.DEBUG
	}
}
