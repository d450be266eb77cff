package looplab.asip;

import java.io.IOException;
import java.io.PrintStream;

/** Copies each change of a pin to another, until it is stopped. */
final class Follow implements Task {
    private static final long LOOK_MS = 50;

    private final Request request;
    private final PrintStream out;
    private volatile String failure;
    private volatile boolean stopped;

    Follow(Request request, PrintStream out) {
        this.request = request;
        this.out = out;
    }

    void stop() {
        stopped = true;
    }

    @Override
    public String run(Board board) throws IOException, Refused, InterruptedException {
        int pin = request.number("out");
        byte[] rise = board.digital(pin, true);
        byte[] fall = board.digital(pin, false);
        board.onChange((high, stampNs) -> copy(board, high ? rise : fall));
        board.modes(pin, request.number("in"));
        // What is wired to the output: a notice of it for each copy would be no part of the wave.
        board.free(request.number("aside"));
        board.synchronise();
        board.begin();
        out.println("ready");
        while (!stopped) {
            Thread.sleep(LOOK_MS);
            board.check();
            if (failure != null) {
                throw new Refused(failure);
            }
        }
        return "done" + board.silence();
    }

    /** Runs on the thread that read the change: no other has to be woken. */
    private void copy(Board board, byte[] message) {
        try {
            board.write(message);
        } catch (IOException error) {
            failure = error.getMessage();
        }
    }
}
