import java.util.*;

/** A Java heap of customers, orders and text, looked up, changed and replaced; prints what it found. */
public class Store {
    record Line(String sku, int quantity, double price) {}

    static final class Order {
        final long id;
        final List<Line> lines = new ArrayList<>();
        final Map<String, String> attributes = new LinkedHashMap<>();

        Order(long id) {
            this.id = id;
        }
    }

    static final class Customer {
        final int id;
        final String name, email;
        double balance;
        List<Order> orders = new ArrayList<>();

        Customer(int id) {
            this.id = id;
            name = word() + " " + word() + " " + Integer.toString(random.nextInt(1 << 20), 36);
            email = name.replace(' ', '.') + "." + id + "@example.com";
            balance = random.nextInt(1_000_000) / 100.0;
        }
    }

    static final String[] WORDS = ("value object returns when method class using argument default name string number result list order customer "
            + "price delivery late early parcel broken please refund invoice payment address street city leave door neighbour phone before "
            + "arrival fragile gift wrapped blue green red small large medium cotton steel wooden glass").split(" ");
    static final Random random = new Random(5);

    static String word() {
        double skewed = random.nextDouble();
        return WORDS[(int) (skewed * skewed * WORDS.length)];
    }

    static String sentence(int words) {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < words; at++) text.append(at == 0 ? "" : " ").append(word());
        return text.toString();
    }

    static Order order(long id) {
        Order order = new Order(id);
        for (int lines = 1 + random.nextInt(5); lines > 0; lines--)
            order.lines.add(new Line("SKU-" + (100000 + random.nextInt(40000)), 1 + random.nextInt(6), random.nextInt(20000) / 100.0));
        if (random.nextInt(2) == 0) order.attributes.put("note", sentence(3 + random.nextInt(25)));
        order.attributes.put("channel", random.nextBoolean() ? "web" : "store");
        return order;
    }

    public static void main(String[] arguments) {
        int count = Integer.parseInt(arguments[0]), rounds = Integer.parseInt(arguments[1]);
        Map<String, Customer> byEmail = new HashMap<>();
        List<Customer> customers = new ArrayList<>();
        TreeMap<Long, Order> byNumber = new TreeMap<>();
        long orders = 0;
        for (int number = 0; number < count; number++) {
            Customer customer = new Customer(number);
            customers.add(customer);
            byEmail.put(customer.email, customer);
            for (int more = random.nextInt(4); more > 0; more--) {
                Order order = order(++orders * 7919 % 1_000_000_007L);
                customer.orders.add(order);
                byNumber.put(order.id, order);
            }
        }
        System.out.println("filled " + byEmail.size() + " " + byNumber.size());
        for (int round = 0; round < rounds; round++) {
            long sum = 0;
            for (int step = 0; step < count / 4; step++) {
                Customer customer = byEmail.get(customers.get(random.nextInt(count)).email);
                for (Order order : customer.orders) {
                    for (Line line : order.lines) sum = sum * 31 + line.sku().hashCode() + line.quantity() + (long) (line.price() * 100);
                    for (String value : order.attributes.values()) sum = sum * 31 + value.hashCode();
                    if (random.nextInt(8) == 0) order.attributes.put("note", sentence(3 + random.nextInt(25)));
                }
                if (random.nextInt(10) == 0) {
                    for (Order order : customer.orders) byNumber.remove(order.id);
                    customer.orders = new ArrayList<>();
                    Order order = order(++orders * 7919 % 1_000_000_007L);
                    customer.orders.add(order);
                    byNumber.put(order.id, order);
                }
            }
            System.out.println("round " + round + " " + Long.toHexString(sum));
        }
        long all = 0;
        for (Map.Entry<Long, Order> entry : byNumber.entrySet()) {
            all = all * 31 + entry.getKey();
            for (Line line : entry.getValue().lines) all = all * 31 + line.sku().hashCode() + line.quantity();
            for (String value : entry.getValue().attributes.values()) all = all * 31 + value.hashCode();
        }
        for (Customer customer : customers) all = all * 31 + customer.name.hashCode() + Double.hashCode(customer.balance);
        System.out.println("all " + byNumber.size() + " " + Long.toHexString(all));
    }
}
