package looplab.asip;

import java.io.IOException;

/** What a worker does with a board that is ready; returns the last line of its answer. */
interface Task {
    String run(Board board) throws IOException, Refused, InterruptedException;
}
