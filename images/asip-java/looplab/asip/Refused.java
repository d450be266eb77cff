package looplab.asip;

/** What the worker cannot do, as one sentence for the controller. */
final class Refused extends Exception {
    private static final long serialVersionUID = 1L;

    Refused(String why) {
        super(why);
    }
}
