import java.time.Instant;
import java.util.*;

/** A Java heap: maps, lists, records, strings, boxed numbers, caches, some of it already garbage. */
public class Heap {
    record Line(String sku, int quantity, double price) {}

    static final class Order {
        long id;
        Customer customer;
        Instant placed;
        List<Line> lines = new ArrayList<>();
        Map<String, String> attributes = new LinkedHashMap<>();
        boolean shipped;
    }

    static final class Customer {
        final int id;
        String name, email, city;
        double balance;
        final List<Order> orders = new ArrayList<>();

        Customer(int id) {
            this.id = id;
        }
    }

    static final String[] WORDS = ("the a value object is of to and in that returns when method class if not be can for this with an are by as it "
            + "from on or called type any number list result argument may default none key name string only which than other must same set "
            + "order customer price delivery late early parcel broken please return refund invoice payment address street city leave at door "
            + "neighbour phone call before arrival fragile gift wrapped blue green red small large medium cotton steel wooden glass").split(" ");
    static final String[] CITIES = "Berlin Madrid Lagos Osaka Toronto Austin Lyon Turin Lima Pune Perth Oslo Gdansk Porto Leeds Cork".split(" ");
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

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]);
        Map<String, Customer> byEmail = new HashMap<>();
        List<Customer> customers = new ArrayList<>();
        TreeMap<Instant, Order> byMoment = new TreeMap<>();
        Map<String, List<Integer>> index = new HashMap<>();
        LinkedHashMap<Long, byte[]> cache = new LinkedHashMap<>(16, 0.75f, true);
        for (int number = 0; number < count; number++) {
            Customer customer = new Customer(number);
            customer.name = word() + " " + word() + " " + Integer.toString(random.nextInt(1 << 20), 36);
            customer.email = customer.name.replace(' ', '.') + "@example.com";
            customer.city = CITIES[random.nextInt(CITIES.length)];
            customer.balance = Math.round(Math.exp(4 + random.nextGaussian()) * 100) / 100.0;
            customers.add(customer);
            byEmail.put(customer.email, customer);
            for (int orders = random.nextInt(4); orders > 0; orders--) {
                Order order = new Order();
                order.id = 1_000_000L + number * 4L + orders;
                order.customer = customer;
                order.placed = Instant.ofEpochSecond(1_700_000_000L + random.nextInt(30_000_000), random.nextInt(1_000_000_000));
                order.shipped = random.nextInt(5) > 0;
                for (int lines = 1 + random.nextInt(5); lines > 0; lines--)
                    order.lines.add(new Line("SKU-" + (100000 + random.nextInt(40000)), 1 + random.nextInt(6), random.nextInt(20000) / 100.0));
                if (random.nextInt(3) == 0) order.attributes.put("note", sentence(3 + random.nextInt(15)));
                order.attributes.put("channel", random.nextBoolean() ? "web" : "store");
                customer.orders.add(order);
                byMoment.put(order.placed, order);
            }
            for (String part : customer.name.split(" ")) index.computeIfAbsent(part, key -> new ArrayList<>()).add(number);
            cache.put((long) random.nextInt(4000), sentence(40).getBytes());
        }
        for (int at = 0; at < count / 8; at++) {
            Customer gone = customers.get(random.nextInt(count));
            byEmail.remove(gone.email);
            gone.orders.clear();
        }
        System.out.println("filled");
        System.out.flush();
        while (System.in.read() >= 0) {}
        System.out.println(byEmail.size() + byMoment.size() + index.size() + cache.size());
    }
}
